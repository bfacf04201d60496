#include "agent/validators/cores.h"

#include <sched.h>

#include <cstddef>

namespace tide::validators {
namespace {

// A set of one bit per CPU: machines may have more than the 1024 of a plain cpu_set_t.
constexpr int kMaxCpus = 8192;

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  const size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(size, set);
  if (::sched_getaffinity(0, size, set) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) {
        cpus.push_back(cpu);
      }
    }
  }
  CPU_FREE(set);
  return cpus;
}

bool PinTo(int cpu) {
  cpu_set_t* const set = CPU_ALLOC(kMaxCpus);
  const size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(size, set);
  CPU_SET_S(static_cast<size_t>(cpu), size, set);
  const bool done = ::sched_setaffinity(0, size, set) == 0;
  CPU_FREE(set);
  return done;
}

}  // namespace tide::validators
