#include "bench/machine.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

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
  return machine;
}

std::string DescribeMachine(const Machine& machine) {
  constexpr int64_t kGib = int64_t{1} << 30;
  return fmt::format("{}, {} cores, {} GiB, {}, {}, {}, load {:.1f}",
                     machine.cpu,
                     machine.cores,
                     (machine.memory_bytes + kGib / 2) / kGib,
                     machine.kernel,
                     machine.compiler,
                     machine.build,
                     machine.load_1m);
}

}  // namespace tide::bench
