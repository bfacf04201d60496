#pragma once
// Which nodes a gang gets (scheduling.md section 4): one zone if any can hold it, few leaves, whole
// leaves kept whole; across two zones only if its rule allows and no other such job runs.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/core/model/state.h"

namespace tide {

struct PlacementRequest {
  uint32_t nodes = 1;
  uint32_t gpus_per_node = 0;
  std::string group;
  std::string zone;             // "single", "cross-ok", or a zone's name
  bool cross_zone_free = true;  // fewer cross-zone jobs run than the fabric allows
  std::vector<NodeId> former;   // nodes of the last attempt: preferred on ties
};

struct Unplaced {
  std::map<std::string, uint32_t> free_by_zone;  // nodes of the group that could be used now
  bool cross_zone_would_fit = false;             // with `cross-ok` it would start now
  bool cross_zone_busy = false;                  // its rule allows it but another job crosses
};

struct PlacementResult {
  std::vector<NodeId> nodes;  // by task index, neighbours adjacent; empty = unplaced
  Unplaced unplaced;          // meaningful when `nodes` is empty
};

// Chooses from `usable` (any order, no repeats) for `request`.
//   Cost: O(usable log usable).  Determined by its arguments: ties go to the lower id.
[[nodiscard]] PlacementResult Place(const ClusterState& state,
                                    const PlacementRequest& request,
                                    const std::vector<NodeId>& usable);

// True when the nodes lie in more than one zone.
[[nodiscard]] bool CrossesZones(const ClusterState& state, const std::vector<NodeId>& nodes);

}  // namespace tide
