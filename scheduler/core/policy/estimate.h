#pragma once
// When waiting jobs will start: a range for each, since Tide asks nobody for a time limit. Not a
// promise and not read by any decision; what is decided is decided when capacity is there.
//
// The waiting jobs, in the policy's order, are given the nodes that come free first (list
// scheduling): nodes whose holders end (policy/remaining.h), and those that policy/runners.h lets
// them have. Three times: with holders that end early, as is likely, and late. The range is the
// spread of the three. What it cannot know are jobs that nobody has submitted yet, and faults.

#include <optional>
#include <vector>

#include "scheduler/core/model/start_estimate.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// One for every job that waits or is held, ascending by job. Determined by its arguments.
//   now: loop time.
//   Cost: O(nodes + past runs + (waiting + live) log (waiting + live)): bench `plan-all`.
//   Source: design scheduling.md section 5; docs/adr/0004.
[[nodiscard]] std::vector<StartEstimate> EstimateStarts(const ClusterState& state,
                                                        const Fabric& fabric,
                                                        const Policy& policy,
                                                        Instant now);

// Of one job alone: the same answer, without those who wait behind it. Nothing: it is not asked,
// since it waits for other jobs first.
[[nodiscard]] std::optional<StartEstimate> EstimateStart(
    const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now, JobId job);

}  // namespace tide
