#include "scheduler/core/model/fabric.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tide {
namespace {

void Widen(FabricGroup& group, const NodeCapacity& capacity, bool first) {
  if (first) {
    group.smallest = capacity;
    group.largest = capacity;
    return;
  }
  group.alike = group.alike && capacity == group.smallest;
  group.smallest.gpus = std::min(group.smallest.gpus, capacity.gpus);
  group.smallest.cpus = std::min(group.smallest.cpus, capacity.cpus);
  group.smallest.memory_bytes = std::min(group.smallest.memory_bytes, capacity.memory_bytes);
  group.smallest.disk_bytes = std::min(group.smallest.disk_bytes, capacity.disk_bytes);
  if (group.smallest.gpu_model != capacity.gpu_model) {
    group.smallest.gpu_model.clear();
  }
  group.largest.gpus = std::max(group.largest.gpus, capacity.gpus);
  group.largest.cpus = std::max(group.largest.cpus, capacity.cpus);
  group.largest.memory_bytes = std::max(group.largest.memory_bytes, capacity.memory_bytes);
  group.largest.disk_bytes = std::max(group.largest.disk_bytes, capacity.disk_bytes);
}

}  // namespace

int Fabric::FindGroup(const std::string& name) const {
  const auto it = std::lower_bound(
      groups.begin(), groups.end(), name, [](const FabricGroup& group, const std::string& wanted) {
        return group.name < wanted;
      });
  return it != groups.end() && it->name == name ? static_cast<int>(it - groups.begin()) : -1;
}

uint32_t Fabric::CountNodes() const {
  uint32_t count = 0;
  for (const FabricZone& zone : zones) {
    count += zone.node_count;
  }
  return count;
}

bool Fabric::Crosses(const std::vector<NodeId>& nodes) const {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return ZoneIndexOf(id) != ZoneIndexOf(nodes.front());
  });
}

Fabric BuildFabric(const std::vector<Node>& nodes) {
  std::vector<const Node*> sorted;
  sorted.reserve(nodes.size());
  for (const Node& node : nodes) {
    if (node.state != NodeState::kRemoved) {
      sorted.push_back(&node);
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const Node* a, const Node* b) {
    const auto key = [](const Node* node) {
      const NodeIdentity& identity = node->identity;
      return std::tie(identity.group, identity.zone, identity.leaf, node->id);
    };
    return key(a) < key(b);
  });
  Fabric fabric;
  fabric.slots.resize(nodes.size(), {kNoLeaf, 0});
  for (const Node* node : sorted) {
    const NodeIdentity& identity = node->identity;
    const bool new_group = fabric.groups.empty() || fabric.groups.back().name != identity.group;
    if (new_group) {
      FabricGroup group;
      group.name = identity.group;
      group.first_zone = static_cast<uint32_t>(fabric.zones.size());
      fabric.groups.push_back(std::move(group));
    }
    FabricGroup& group = fabric.groups.back();
    Widen(group, identity.capacity, new_group);
    const bool new_zone = new_group || fabric.zones.back().name != identity.zone;
    if (new_zone) {
      FabricZone zone;
      zone.name = identity.zone;
      zone.group = static_cast<uint32_t>(fabric.groups.size() - 1);
      zone.first_leaf = static_cast<uint32_t>(fabric.leaves.size());
      fabric.zones.push_back(std::move(zone));
      ++group.zone_count;
    }
    FabricZone& zone = fabric.zones.back();
    if (new_zone || fabric.leaves.back().name != identity.leaf ||
        fabric.leaves.back().nodes.size() == kLeafNodesMax) {
      fabric.leaves.push_back({identity.leaf, static_cast<uint32_t>(fabric.zones.size() - 1), {}});
      ++zone.leaf_count;
    }
    FabricLeaf& leaf = fabric.leaves.back();
    fabric.slots[node->id.value()] = {static_cast<uint32_t>(fabric.leaves.size() - 1),
                                      static_cast<uint32_t>(leaf.nodes.size())};
    leaf.nodes.push_back(node->id);
    ++zone.node_count;
  }
  return fabric;
}

}  // namespace tide
