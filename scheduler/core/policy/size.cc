#include "scheduler/core/policy/size.h"

namespace tide {

bool IsNamedZone(std::string_view rule) {
  return rule != kSingleZone && rule != kCrossOk;
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
  return LargestGang(state.fabric, group, spec.zone, [&](uint32_t zone) {
    return CountLargeEnough(state, state.fabric.zones[zone], spec);
  });
}

}  // namespace tide
