#include "scheduler/core/policy/size.h"

#include <algorithm>

namespace tide {

bool IsNamedZone(std::string_view rule) {
  return rule != "single" && rule != "cross-ok";
}

uint32_t CountLargeEnough(const ClusterState& state, const FabricZone& zone, const JobSpec& spec) {
  const Fabric& fabric = state.fabric;
  if (fabric.groups[zone.group].smallest.gpus >= spec.gpus_per_node) {
    return zone.node_count;
  }
  uint32_t count = 0;
  for (uint32_t leaf = zone.first_leaf; leaf < zone.first_leaf + zone.leaf_count; ++leaf) {
    for (const NodeId node : fabric.leaves[leaf].nodes) {
      count += state.nodes[node.value()].identity.capacity.gpus >= spec.gpus_per_node ? 1 : 0;
    }
  }
  return count;
}

uint32_t LargestGangEver(const ClusterState& state, const JobSpec& spec) {
  const int index = state.fabric.FindGroup(spec.group);
  if (index < 0) {
    return 0;
  }
  const FabricGroup& group = state.fabric.groups[static_cast<size_t>(index)];
  uint32_t most = 0;
  uint32_t second = 0;  // a gang is split over two zones at most
  for (uint32_t i = group.first_zone; i < group.first_zone + group.zone_count; ++i) {
    const FabricZone& zone = state.fabric.zones[i];
    if (!IsNamedZone(spec.zone) || zone.name == spec.zone) {
      const uint32_t count = CountLargeEnough(state, zone, spec);
      second = std::max(second, std::min(most, count));
      most = std::max(most, count);
    }
  }
  return spec.zone == "cross-ok" ? most + second : most;
}

}  // namespace tide
