#pragma once
// Which running jobs leave for a waiting one: as few and as cheap as possible.

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/runners.h"

namespace tide {

struct VictimPlan {
  std::vector<NodeId> nodes;   // for the beneficiary, by task index; empty = no set suffices
  std::optional<Part> part;    // without devices; nothing: whole nodes
  std::vector<JobId> victims;  // in ascending order; empty: all of it is being left anyway
};

// How a waiting job sees what runs and what is kept.
struct TakeRules {
  // Takes work, is not taken in this pass, not kept for one of its own or a higher class.
  std::function<bool(NodeId)> node;
  // The runner leaves anyway, and not for somebody else.
  std::function<bool(const Runner&)> leaves;
  // The runner may be asked.
  std::function<bool(const Runner&)> takeable;
};

// Who asks, and for what.
struct Asker {
  const Contender& contender;
  const PlacementRequest& request;
};

// Whole nodes for a gang. `pool` are nodes that are idle for it. Runners are taken in the order of
// `runners`, and those that turn out not to be needed are spared again, the dearest first.
//   Cost: O(runners + nodes).
[[nodiscard]] VictimPlan ChooseVictims(const ClusterState& state,
                                       const Capacity& capacity,
                                       const Asker& asker,
                                       const FreeNodes& pool,
                                       const Runners& runners,
                                       const TakeRules& rules);

// Room on one node for a job that takes a part. Cost: O(runners).
[[nodiscard]] VictimPlan ChoosePartVictims(const ClusterState& state,
                                           const Capacity& capacity,
                                           const Asker& asker,
                                           const Runners& runners,
                                           const TakeRules& rules);

}  // namespace tide
