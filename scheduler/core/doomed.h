#pragma once
// Jobs that wait for the end of others: why, and the end of those that wait in vain.

#include "scheduler/core/decide.h"

namespace tide {

// Adds an end for every job whose dependency has failed, and for those that these keep from
// starting in turn: a chain of any length ends in one round.
//   Cost: none where no dependency has failed, else O(jobs that end, with their dependents).
void CollectDoomed(const ClusterState& state, Decision& decision);

// Adds the explanation of every blocked job. Cost: O(blocked jobs); those of an array share theirs.
void ExplainBlocked(const ClusterState& state, Decision& decision);

}  // namespace tide
