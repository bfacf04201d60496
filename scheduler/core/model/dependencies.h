#pragma once
// Who waits for whose end (JobSpec::after). Derived from the jobs: a job of the queue that may not
// start yet stands here and not in ClusterState::waiting, so that nobody looks at it. A job that
// has started once waits for nobody any more; one that its user holds does not stand here either.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "scheduler/core/model/job.h"

namespace tide {

struct ClusterState;

struct Blocked {
  uint32_t open = 0;  // dependencies that are not met yet
  JobId first;        // of those, in the order of the spec; 0 = none
  bool operator==(const Blocked&) const = default;
};

// How the elements of an array stand.
struct ArrayTally {
  uint32_t left = 0;    // have not ended
  uint32_t failed = 0;  // have ended without success
  bool operator==(const ArrayTally&) const = default;
};

// A job, or (true) all of the array that it begins.
using Awaited = std::pair<JobId, bool>;

struct Dependencies {
  std::map<JobId, Blocked> blocked;
  std::map<Awaited, std::set<JobId>> dependents;  // the blocked jobs that wait for its end
  std::set<JobId> doomed;                         // blocked jobs that can never start any more
  std::map<JobId, ArrayTally> arrays;             // by first element; whole ones: none is archived
  bool operator==(const Dependencies&) const = default;
};

enum class DependencyState {
  kOpen,
  kMet,
  kNever,  // it has ended otherwise, or is not known any more
};
[[nodiscard]] DependencyState StateOf(const ClusterState& state, const Dependency& dependency);

// What a submission with these dependencies would be refused for.
//   Errors: kNotFound for a job that is not known, or no array; kNeverFits for one that has ended
//   otherwise.
[[nodiscard]] Status CheckDependencies(const ClusterState& state, const JobSpec& spec);

// "j-12 failed, and this job runs only after its success".
[[nodiscard]] std::string DescribeNeverMet(const ClusterState& state, const Dependency& dependency);

// `job` enters the queue: blocked, if a dependency is not met. Cost: none without dependencies.
void AddDependent(ClusterState& state, const Job& job);
// It leaves the queue without having started.
void RemoveDependent(ClusterState& state, const Job& job);
// Before its elements enter the queue.
void AddArray(ClusterState& state, JobId first, uint32_t count);
// `job` has ended: whom it kept back goes to `waiting`, or is doomed.
//   Cost: O(its dependents), each with its few dependencies; those of its array only when that ends
//   or has its first failure.
void SettleDependents(ClusterState& state, const Job& job, Instant at);

// From scratch, for RebuildDerived and CheckInvariants. Cost: O(jobs).
//   jobs: all of the state.
[[nodiscard]] Dependencies CountDependencies(const ClusterState& state, const JobList& jobs);

}  // namespace tide
