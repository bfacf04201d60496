#pragma once
// What a process of this machine has used, from /proc.

#include <sys/types.h>

#include <cstdint>

namespace tide::bench {

// CPU time of all its threads, in seconds; the clock ticks 100 times a second. Aborts when it is
// gone, as does the next.
[[nodiscard]] double CpuSeconds(pid_t pid);
[[nodiscard]] int64_t ResidentBytes(pid_t pid);
// Returns the most that it has had resident since it started.
[[nodiscard]] int64_t PeakResidentBytes(pid_t pid);

}  // namespace tide::bench
