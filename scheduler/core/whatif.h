#pragma once
// What would happen to a job that nobody has submitted yet: the path of a real submission, on a
// copy of the state. Nothing of it is committed, and the state itself is only read.

#include <span>
#include <string>

#include "common/base/result.h"
#include "scheduler/core/model/job_plan.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// What decisions read of the state. Left out is what they never look at, so that the copy grows
// neither with a cluster's history nor with what jobs carry: jobs that are held or have finished,
// tasks of former attempts, commands and environments, incidents, verdicts of validators, what
// agents say of themselves, the indexes by name and by key, jobs that wait for the end of others.
//   after: what the job in question waits for; these jobs are in the copy, whatever their state.
//   Cost: O(waiting jobs + live tasks + nodes): less than one decision on the same state (bench
//   `whatif/copy` beside `decide-full`).
[[nodiscard]] ClusterState CopyForPlan(const ClusterState& state,
                                       std::span<const Dependency> after = {});

// Submits the job to `copy`, which is used up, and says what the scheduler then does.
//   copy: of CopyForPlan.   now: loop time, not before the copy's.
//   Errors: those of a submission: kNeverFits, kUnavailable.
//   Cost: that of Step with one submission, a few decisions, and of start estimates where it waits.
[[nodiscard]] Result<JobPlan> PlanJob(ClusterState copy,
                                      const Policy& policy,
                                      const JobSpec& spec,
                                      const std::string& user,
                                      Instant now);

}  // namespace tide
