#pragma once
// Which nodes a gang gets (scheduling.md section 4): one zone if any can hold it, few leaves, whole
// leaves kept whole; across zones (zone_chain.h) only if its rule allows and no more such jobs run
// than may.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/core/model/warm_images.h"
#include "scheduler/core/policy/boundary_use.h"
#include "scheduler/core/policy/free_nodes.h"

namespace tide {

struct PlacementRequest {
  uint32_t nodes = 1;
  std::string group;
  std::string zone = "single";  // JobSpec::zone
  bool cross_zone_free = true;  // fewer cross-zone jobs run than the fabric allows
  // Limits left at the boundaries between zones for it. Null = they have none.
  std::shared_ptr<const BoundaryUse> boundaries;
  std::vector<NodeId> former;  // nodes of the last attempt by task index: preferred on ties
  // Which nodes have the job's image: preferred where no former node is free. Null = not known.
  const WarmImages* warm = nullptr;
  std::string_view image = {};
  // A fault ended that attempt: see policy/replacement.h.
  bool after_fault = false;
  std::vector<NodeId> suspects;  // of `former`: nodes that took their task down
};

struct PlacementResult {
  std::vector<NodeId> nodes;          // by task index, neighbours adjacent; empty = unplaced
  bool cross_zone_would_fit = false;  // unplaced; with `cross-ok` it would start now
  bool cross_zone_busy = false;       // unplaced; its rule allows it but others cross
};

// Chooses from `free`, all of whose nodes must be good for the job.
//   Cost: O(leaves of a zone × leaves taken).  Determined by its arguments: ties go to the lower
//   name, then the lower id.
[[nodiscard]] PlacementResult Place(const FreeNodes& free, const PlacementRequest& request);

// The nodes that have the image, ascending. Cost: O(log images).
[[nodiscard]] const std::vector<NodeId>& WarmNodes(const PlacementRequest& request);

// Could `free` hold the gang? Cost: O(zones of the group).
[[nodiscard]] bool Fits(const FreeNodes& free, const PlacementRequest& request);

}  // namespace tide
