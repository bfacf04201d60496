#pragma once
// What a figure was measured on; printed with every one, since it means nothing without.

#include <cstdint>
#include <string>

namespace tide::bench {

struct Machine {
  std::string cpu;
  int cores = 0;  // that this process may use
  int64_t memory_bytes = 0;
  std::string kernel;
  std::string compiler;
  std::string build;   // CMake's build type
  double load_1m = 0;  // when the run began: others share this machine
  // Nanoseconds of one dependent read of 8 MiB in random order, when the run began. That fits into
  // the shared cache of most machines: where neighbours fill it, the core's figures are several
  // times as high with the same CPU and no load that this machine sees.
  double read_ns = 0;
};

[[nodiscard]] Machine ReadMachine();

// "AMD EPYC 7B13, 2 cores, 24 GiB, Linux 6.1.0, g++ 12.2.0, RelWithDebInfo, load 0.3, read
// 21 ns"
[[nodiscard]] std::string DescribeMachine(const Machine& machine);

}  // namespace tide::bench
