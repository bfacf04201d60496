#include "agent/validators/cpu_kernels.h"

#include <bit>
#include <cmath>
#include <vector>

#include "agent/validators/cpu_answers.h"
#include "agent/validators/digests.h"
#include "common/base/check.h"
#include "common/base/prng.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The steps and constants here are those of cpu_answers.py.
namespace tide::validators {
namespace {

constexpr int kIntegerSteps = 20000;
constexpr int kFmaSteps = 1500;
constexpr size_t kFmaLanes = 8;
constexpr size_t kBufferWords = 4096;
constexpr double kGrowth = 3.99;

using Lanes = std::array<double, kFmaLanes>;

uint64_t Integer(size_t variant) {
  uint64_t x = variant + 1;
  uint64_t acc = 0;
  for (int i = 0; i < kIntegerSteps; ++i) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t y = (x ^ (x >> 29U)) * 0xbf58476d1ce4e5b9ULL;
    const uint64_t divisor = (y >> 32U) | 1U;
    acc = std::rotl(acc, 7) ^ (y + x / divisor);
    acc += static_cast<uint64_t>(std::popcount(x)) * (x % divisor);
  }
  return acc;
}

Lanes StartLanes(size_t variant) {
  Lanes lanes{};
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i] = static_cast<double>(1 + i + 8 * variant) / 64.0;
  }
  return lanes;
}

uint64_t Checksum(const Lanes& lanes) {
  uint64_t checksum = 0;
  for (const double lane : lanes) {
    checksum = std::rotl(checksum ^ std::bit_cast<uint64_t>(lane), 9);
  }
  return checksum;
}

uint64_t Fma(size_t variant) {
  Lanes lanes = StartLanes(variant);
  for (int i = 0; i < kFmaSteps; ++i) {
    for (double& a : lanes) {
      a = kGrowth * std::fma(-a, a, a);
    }
  }
  return Checksum(lanes);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) uint64_t FmaVector(size_t variant) {
  Lanes lanes = StartLanes(variant);
  __m256d low = _mm256_loadu_pd(lanes.data());
  __m256d high = _mm256_loadu_pd(lanes.data() + 4);
  const __m256d growth = _mm256_set1_pd(kGrowth);
  for (int i = 0; i < kFmaSteps; ++i) {
    low = _mm256_mul_pd(growth, _mm256_fnmadd_pd(low, low, low));
    high = _mm256_mul_pd(growth, _mm256_fnmadd_pd(high, high, high));
  }
  _mm256_storeu_pd(lanes.data(), low);
  _mm256_storeu_pd(lanes.data() + 4, high);
  return Checksum(lanes);
}
#else
uint64_t FmaVector(size_t variant) {
  return Fma(variant);
}
#endif

// Little-endian words, whatever the machine.
std::vector<uint8_t> Data(size_t variant) {
  Prng prng(1000 + variant);
  std::vector<uint8_t> bytes(kBufferWords * 8);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = prng.Next();
    for (size_t k = 0; k < 8; ++k) {
      bytes[i + k] = static_cast<uint8_t>(word >> (8 * k));
    }
  }
  return bytes;
}

uint64_t DigestStart(size_t variant) {
  const Sha256Digest digest = Sha256(Data(variant));
  uint64_t start = 0;
  for (size_t i = 0; i < 8; ++i) {
    start = start << 8U | digest[i];
  }
  return start;
}

}  // namespace

std::string_view CpuKernelName(CpuKernel kernel) {
  switch (kernel) {
    case CpuKernel::kInteger:
      return "integer";
    case CpuKernel::kFma:
      return "fma";
    case CpuKernel::kFmaVector:
      return "fma-vector";
    case CpuKernel::kSha256:
      return "sha256";
    case CpuKernel::kCrc32:
      return "crc32";
  }
  return "";
}

bool IsSupported(CpuKernel kernel) {
  if (kernel != CpuKernel::kFmaVector) {
    return true;
  }
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;
#endif
}

uint64_t RunCpuKernel(CpuKernel kernel, size_t variant) {
  TIDE_CHECK(variant < kCpuVariants, "the answers of a kernel's variant are known");
  switch (kernel) {
    case CpuKernel::kInteger:
      return Integer(variant);
    case CpuKernel::kFma:
      return Fma(variant);
    case CpuKernel::kFmaVector:
      return FmaVector(variant);
    case CpuKernel::kSha256:
      return DigestStart(variant);
    case CpuKernel::kCrc32:
      return Crc32(Data(variant));
  }
  return 0;
}

uint64_t ExpectedAnswer(CpuKernel kernel, size_t variant) {
  TIDE_CHECK(variant < kCpuVariants, "the answers of a kernel's variant are known");
  switch (kernel) {
    case CpuKernel::kInteger:
      return answers::kInteger[variant];
    case CpuKernel::kFma:
    case CpuKernel::kFmaVector:
      return answers::kFma[variant];
    case CpuKernel::kSha256:
      return answers::kSha256[variant];
    case CpuKernel::kCrc32:
      return answers::kCrc32[variant];
  }
  return 0;
}

}  // namespace tide::validators
