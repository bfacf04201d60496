#pragma once
// The cluster that a simulation runs on: the nodes as their agents would report them.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/cluster/cluster_spec.h"
#include "scheduler/core/model/node.h"

namespace tide::sim {

struct ClusterShape {
  std::vector<NodeIdentity> nodes;  // index = NodeId
  std::vector<uint32_t> zone_of;    // by node; zones count from 0 as they appear
  std::string group;                // of every node
  uint32_t zones = 0;
  uint32_t gpus_per_node = 0;
  FabricSpec fabric = {};

  [[nodiscard]] int64_t capacity() const {
    return static_cast<int64_t>(nodes.size()) * gpus_per_node;
  }
  // Nodes of the largest zone.
  [[nodiscard]] uint32_t LargestZone() const;
};

// `nodes` equal nodes in one zone, 16 to a leaf switch.
[[nodiscard]] ClusterShape FlatCluster(uint32_t nodes, uint32_t gpus_per_node);

// The cluster of a file. A trace does not say which hardware a job wants, so all nodes must be of
// one group.
//   Errors: those of LoadClusterFile; kInvalidArgument for several groups or none with GPUs.
[[nodiscard]] Result<ClusterShape> LoadClusterShape(const std::string& path);

}  // namespace tide::sim
