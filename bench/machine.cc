#include "bench/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/time.h"

namespace tide::bench {
namespace {

// "model name : AMD EPYC" of /proc/cpuinfo; x86 calls it so, others have no such line.
std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// One cycle through all lines of 8 MiB, so that each read waits for the one before.
double RandomReadNanos() {
  constexpr size_t kLine = 64 / sizeof(uint32_t);
  constexpr size_t kLines = (size_t{8} << 20U) / 64;
  constexpr int kReads = 1'000'000;
  std::vector<uint32_t> order(kLines);
  std::iota(order.begin(), order.end(), 0);
  Prng prng(1);
  for (size_t i = kLines - 1; i > 0; --i) {  // Sattolo: one cycle, not several
    std::swap(order[i], order[prng.Below(i)]);
  }
  std::vector<uint32_t> next(kLines * kLine);
  for (size_t i = 0; i < kLines; ++i) {
    next[i * kLine] = order[i] * static_cast<uint32_t>(kLine);
  }
  uint32_t at = 0;
  const auto read = [&] {
    for (int i = 0; i < kReads; ++i) {
      at = next[at];
    }
  };
  read();  // warms what can be warm
  const int64_t start = MonotonicNanos();
  read();
  const int64_t took = MonotonicNanos() - start;
  TIDE_CHECK(at < next.size(), "the reads are not left out");
  return static_cast<double>(took) / kReads;
}

}  // namespace

Machine ReadMachine() {
  Machine machine;
  machine.cpu = CpuModel();
  machine.cores = UsableCores();
  machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  utsname name{};
  if (uname(&name) == 0) {
    machine.kernel = std::string(name.sysname) + " " + name.release;
  }
#ifdef __clang__
  machine.compiler = "clang++ " __clang_version__;
#else
  machine.compiler = "g++ " __VERSION__;
#endif
  machine.build = TIDE_BUILD_TYPE;
  double load = 0;
  if (getloadavg(&load, 1) == 1) {
    machine.load_1m = load;
  }
  machine.read_ns = RandomReadNanos();
  return machine;
}

std::string DescribeMachine(const Machine& machine) {
  constexpr int64_t kGib = int64_t{1} << 30;
  return fmt::format("{}, {} cores, {} GiB, {}, {}, {}, load {:.1f}, read {:.0f} ns",
                     machine.cpu,
                     machine.cores,
                     (machine.memory_bytes + kGib / 2) / kGib,
                     machine.kernel,
                     machine.compiler,
                     machine.build,
                     machine.load_1m,
                     machine.read_ns);
}

}  // namespace tide::bench
