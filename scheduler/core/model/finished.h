#pragma once
// Finished jobs that nothing in the state needs any more, by when they ended: they may be archived.
// An element of an array is needed until all of the array has ended, and what a job is to run after
// (JobSpec::after) until that job has started. Kept by Apply, made anew by a load.

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "scheduler/core/model/dependencies.h"

namespace tide {

struct FinishedJobs {
  std::set<std::pair<Instant, JobId>> oldest;  // by when they ended
  std::set<JobId> awaiting;                    // have not started, and are to run after others
  std::map<Awaited, uint32_t> awaited;         // by so many of these
  bool operator==(const FinishedJobs&) const = default;
};

[[nodiscard]] bool MayBeArchived(const ClusterState& state, const Job& job);

// After `job` has changed. Cost: O(its dependencies) + O(array) when the last element of one ends,
// or the last job starts that was to run after all of it.
void IndexFinished(ClusterState& state, const Job& job);

// From scratch. Cost: O(jobs).
//   jobs: all of the state.
[[nodiscard]] FinishedJobs CountFinished(const ClusterState& state, const JobList& jobs);

}  // namespace tide
