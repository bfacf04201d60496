#pragma once
// How long jobs held nodes that have ended: the newest of each owner and the newest of everybody,
// by size. Derived from the finished jobs on record and from what is kept of archived ones, so that
// it survives a restart; it forgets by count, not by time, so that an owner who comes back after a
// month is still known.

#include <cstdint>
#include <map>
#include <optional>
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

// Whose run it was; also what stays of an archived job's.
struct OwnedRun {
  std::string project;
  std::string user;
  uint32_t size = 0;  // class
  PastRun run;
  bool operator==(const OwnedRun&) const = default;
};
// Of a job that has ended; nothing if it never ran.
[[nodiscard]] std::optional<OwnedRun> RunOf(const Job& job, Instant ended);

struct RunHistory {
  using Owner = std::pair<std::string, std::string>;  // project, user
  std::map<std::pair<Owner, uint32_t>, PastRuns> own;
  std::map<uint32_t, PastRuns> all;  // by size
  bool operator==(const RunHistory&) const = default;

  // A job that ran has ended, however. The order of the calls does not matter. Returns the jobs
  // whose runs a list has forgotten for it; another list may still have them.
  //   Cost: O(log owners + kAllRunsMax).
  std::vector<JobId> Add(const OwnedRun& owned);
  [[nodiscard]] bool Has(const OwnedRun& owned) const;
};

}  // namespace tide
