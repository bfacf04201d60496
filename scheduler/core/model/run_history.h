#pragma once
// How long jobs held nodes that have ended: the newest of each owner and the newest of everybody,
// by size. Derived from the finished jobs on record, so that it survives a restart; it forgets by
// count, not by time, so that an owner who comes back after a month is still known.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "scheduler/core/model/job.h"

namespace tide {

struct PastRun {
  Instant ended;
  JobId job;
  Duration ran;  // over all attempts
  auto operator<=>(const PastRun&) const = default;
};
using PastRuns = std::vector<PastRun>;  // oldest first

inline constexpr size_t kOwnRunsMax = 16;   // of an owner, for each size
inline constexpr size_t kAllRunsMax = 256;  // of everybody, for each size

// Jobs of like size: 1, 2–3, 4–7, 8–15, … GPUs.
[[nodiscard]] uint32_t SizeClassOf(const JobSpec& spec);

struct RunHistory {
  using Owner = std::pair<std::string, std::string>;  // project, user
  std::map<std::pair<Owner, uint32_t>, PastRuns> own;
  std::map<uint32_t, PastRuns> all;  // by size
  bool operator==(const RunHistory&) const = default;

  // A job that ran has ended, however. The order of the calls does not matter.
  //   Cost: O(log owners + kAllRunsMax).
  void Add(const Job& job, Instant ended);
};

}  // namespace tide
