#pragma once
// The fabric as indexes: groups of zones of leaf switches of nodes, so that free nodes are bit
// masks and counts. Derived from the nodes' identities.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "scheduler/core/model/node.h"

namespace tide {

// Leaves of more nodes than a mask has bits are kept as several of the same name.
inline constexpr uint32_t kLeafNodesMax = 64;

// Where a removed node lies.
inline constexpr uint32_t kNoLeaf = UINT32_MAX;

struct FabricLeaf {
  std::string name;
  uint32_t zone = 0;          // index into Fabric::zones
  std::vector<NodeId> nodes;  // by slot, ascending; at most kLeafNodesMax
  bool operator==(const FabricLeaf&) const = default;
};

// The nodes of one group in one zone.
struct FabricZone {
  std::string name;
  uint32_t group = 0;
  uint32_t first_leaf = 0;  // its leaves are neighbours, ascending by name
  uint32_t leaf_count = 0;
  uint32_t node_count = 0;
  bool operator==(const FabricZone&) const = default;
};

struct FabricGroup {
  std::string name;
  uint32_t first_zone = 0;  // its zones are neighbours, ascending by name
  uint32_t zone_count = 0;
  NodeCapacity smallest;  // what each of its nodes has at least; its model if they have the same
  NodeCapacity largest;
  bool alike = true;  // its nodes have the same of everything
  bool operator==(const FabricGroup&) const = default;
};

struct FabricSlot {
  uint32_t leaf = 0;
  uint32_t slot = 0;
  bool operator==(const FabricSlot&) const = default;
};

struct Fabric {
  std::vector<FabricGroup> groups;  // ascending by name
  std::vector<FabricZone> zones;    // by group, then name
  std::vector<FabricLeaf> leaves;   // by zone, then name
  std::vector<FabricSlot> slots;    // index = NodeId
  bool operator==(const Fabric&) const = default;

  // Index into `groups`, or -1. Cost: O(log groups).
  [[nodiscard]] int FindGroup(const std::string& name) const;
  [[nodiscard]] const FabricZone& ZoneOf(NodeId node) const {
    return zones[leaves[slots[node.value()].leaf].zone];
  }
  [[nodiscard]] uint32_t ZoneIndexOf(NodeId node) const {
    return leaves[slots[node.value()].leaf].zone;
  }
  // Removed nodes are not counted. Cost: O(zones).
  [[nodiscard]] uint32_t CountNodes() const;
  // Do the nodes lie in more than one zone?
  [[nodiscard]] bool Crosses(const std::vector<NodeId>& nodes) const;
};

// Cost: O(nodes log nodes).
[[nodiscard]] Fabric BuildFabric(const std::vector<Node>& nodes);

}  // namespace tide
