#include "scheduler/core/policy/size.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tide {

uint32_t SumOfLargest(std::vector<uint32_t> counts, uint32_t most) {
  if (most < counts.size()) {
    std::ranges::nth_element(counts, counts.begin() + most, std::greater());
    counts.resize(most);
  }
  return std::accumulate(counts.begin(), counts.end(), uint32_t{0});
}

namespace {

template <typename Counts>
uint32_t CountOneByOne(const ClusterState& state,
                       const FabricZone& zone,
                       const JobSpec& spec,
                       const Counts& counts) {
  uint32_t count = 0;
  for (uint32_t leaf = zone.first_leaf; leaf < zone.first_leaf + zone.leaf_count; ++leaf) {
    for (const NodeId node : state.fabric.leaves[leaf].nodes) {
      const bool holds = CanHold(state.nodes[node.value()].identity.capacity, spec);
      count += holds && counts(node) ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

uint32_t CountLargeEnough(const ClusterState& state, const FabricZone& zone, const JobSpec& spec) {
  if (AllCanHold(state.fabric.groups[zone.group], spec)) {
    return zone.node_count;
  }
  return CountOneByOne(state, zone, spec, [](NodeId) { return true; });
}

uint32_t CountFreeLargeEnough(const ClusterState& state,
                              uint32_t zone,
                              const JobSpec& spec,
                              const FreeNodes& free) {
  const FabricZone& where = state.fabric.zones[zone];
  if (AllCanHold(state.fabric.groups[where.group], spec)) {
    return free.CountInZone(zone);
  }
  return CountOneByOne(state, where, spec, [&](NodeId node) { return free.Contains(node); });
}

bool OneZoneHolds(const Fabric& fabric, const JobSpec& spec) {
  const int index = fabric.FindGroup(spec.group);
  if (index < 0) {
    return false;
  }
  const FabricGroup& group = fabric.groups[static_cast<size_t>(index)];
  return LargestGang(fabric, group, kSingleZone, [&](uint32_t zone) {
           return fabric.zones[zone].node_count;
         }) >= spec.nodes;
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
