#pragma once
// Which running jobs of lower classes leave for a gang: as few and as cheap as possible.

#include <vector>

#include "scheduler/core/policy/placement.h"

namespace tide {

struct VictimCandidate {
  const Job* job = nullptr;
  std::vector<NodeId> nodes;  // the ones the beneficiary could use
};

struct VictimPlan {
  std::vector<NodeId> nodes;   // for the beneficiary, by task index; empty = no set suffices
  std::vector<JobId> victims;  // in ascending order
};

// `pool` are nodes that need no victim. Candidates are taken in the order lowest class, latest
// start (least work at risk), and those that turn out not to be needed are spared again.
//   Cost: O(candidates × placement).
[[nodiscard]] VictimPlan ChooseVictims(const ClusterState& state,
                                       const PlacementRequest& request,
                                       const std::vector<NodeId>& pool,
                                       std::vector<VictimCandidate> candidates);

}  // namespace tide
