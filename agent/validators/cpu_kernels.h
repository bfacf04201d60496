#pragma once
// Computations whose right answers are known, worked out elsewhere (cpu_answers.py) and by other
// means (Python's integers, exact fractions, hashlib, zlib). Pure functions, any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tide::validators {

enum class CpuKernel : uint8_t {
  kInteger = 0,  // multiply, divide, shift, population count
  kFma,          // chaotic chains of fused multiply-add: one wrong bit changes everything after it
  kFmaVector,    // the same in 256-bit vectors, where the processor has them
  kSha256,
  kCrc32,
};

inline constexpr std::array kCpuKernels = {CpuKernel::kInteger,
                                           CpuKernel::kFma,
                                           CpuKernel::kFmaVector,
                                           CpuKernel::kSha256,
                                           CpuKernel::kCrc32};
constexpr size_t kCpuVariants = 4;  // different operands, so that different bits toggle

[[nodiscard]] std::string_view CpuKernelName(CpuKernel kernel);
[[nodiscard]] bool IsSupported(CpuKernel kernel);

// variant < kCpuVariants; IsSupported(kernel).
[[nodiscard]] uint64_t RunCpuKernel(CpuKernel kernel, size_t variant);
[[nodiscard]] uint64_t ExpectedAnswer(CpuKernel kernel, size_t variant);

}  // namespace tide::validators
