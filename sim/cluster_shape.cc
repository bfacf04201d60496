#include "sim/cluster_shape.h"

#include <algorithm>

#include "common/cluster/cluster_text.h"

namespace tide::sim {
namespace {

constexpr uint32_t kNodesPerLeaf = 16;

void AddNode(ClusterShape& shape,
             const GroupSpec& group,
             const std::string& name,
             const std::string& zone,
             const std::string& leaf) {
  NodeIdentity node;
  node.name = name;
  node.group = group.name;
  node.zone = zone;
  node.leaf = leaf;
  node.capacity.gpus = group.gpus_per_node;
  node.capacity.cpus = group.cpus;
  node.capacity.memory_bytes = group.memory_bytes;
  shape.nodes.push_back(std::move(node));
}

}  // namespace

uint32_t ClusterShape::LargestZone() const {
  std::vector<uint32_t> count(zones, 0);
  for (const uint32_t zone : zone_of) {
    ++count[zone];
  }
  return *std::max_element(count.begin(), count.end());
}

ClusterShape FlatCluster(uint32_t nodes, uint32_t gpus_per_node) {
  ClusterShape shape;
  shape.zones = 1;
  shape.group = "default";
  shape.gpus_per_node = gpus_per_node;
  shape.zone_of.assign(nodes, 0);
  GroupSpec group;
  group.name = shape.group;
  group.gpus_per_node = gpus_per_node;
  for (uint32_t i = 0; i < nodes; ++i) {
    const std::string leaf = "l" + std::to_string(i / kNodesPerLeaf + 1);
    AddNode(shape, group, leaf + "-n" + std::to_string(i % kNodesPerLeaf + 1), "A", leaf);
  }
  return shape;
}

Result<ClusterShape> LoadClusterShape(const std::string& path) {
  TIDE_ASSIGN(const ClusterSpec cluster, LoadClusterFile(path));
  if (cluster.groups.size() != 1 || cluster.groups.front().gpus_per_node == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ":1:1: the cluster has " + std::to_string(cluster.groups.size()) +
                    " groups; a simulation needs one group whose gpus_per_node is given");
  }
  const GroupSpec& group = cluster.groups.front();
  ClusterShape shape;
  shape.group = group.name;
  shape.gpus_per_node = group.gpus_per_node;
  shape.fabric = cluster.fabric;
  for (const ZoneSpec& zone : cluster.zones) {
    for (const LeafSpec& leaf : zone.leaves) {
      for (const std::string& name : leaf.nodes) {
        AddNode(shape, group, name, zone.name, leaf.name);
        shape.zone_of.push_back(shape.zones);
      }
    }
    ++shape.zones;
  }
  return shape;
}

}  // namespace tide::sim
