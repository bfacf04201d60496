#pragma once
// Which change to a waiting gang would start it: how `tide why` ends.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/runners.h"

namespace tide {

// Nodes that a higher class could have, by zone. Cost: O(live tasks), once in a pass.
class HigherClasses {
 public:
  HigherClasses(const ClusterState& state, const Runners& runners);

  // The lowest class above `priority` in which the gang would get its nodes: what is idle, and what
  // runs in the classes below that one. Nothing: not even the highest would do.
  //   Cost: O(zones × classes).
  [[nodiscard]] std::optional<int32_t> Find(const Job& job,
                                            int32_t priority,
                                            const FreeNodes& idle,
                                            bool may_cross) const;

 private:
  const Fabric& fabric_;
  std::vector<std::map<int32_t, uint32_t>> running_;  // by zone: class → nodes
};

}  // namespace tide
