#pragma once
// A cluster as its operator describes it: pools of hardware, and the fabric that joins the nodes.
// Zones are two-level fat trees with full bisection; few links lie between them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/boundary.h"

namespace tide {

// What each node of a pool has; 0 or "" = not said.
struct GroupSpec {
  std::string name;
  uint32_t gpus_per_node = 0;
  std::string gpu_model;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
  bool operator==(const GroupSpec&) const = default;
};

struct LeafSpec {
  std::string name;
  std::string group;               // one of ClusterSpec::groups
  std::vector<std::string> nodes;  // at least one
  bool operator==(const LeafSpec&) const = default;
};

struct ZoneSpec {
  std::string name;
  std::vector<LeafSpec> leaves;  // at least one
  bool operator==(const ZoneSpec&) const = default;
};

struct FabricSpec {
  uint32_t cross_zone_jobs_max = 1;  // jobs that may lie in more than one zone at a time
  uint32_t cross_zone_links = 0;     // from each zone to the others; 0 = not said
  // Zones that are joined, and what may pass there; empty = any two, with no limit of their own.
  std::vector<Boundary> boundaries = {};
  bool operator==(const FabricSpec&) const = default;
};

// Names of nodes, leaves, zones and groups are unique, each among its kind.
struct ClusterSpec {
  std::string name;
  std::vector<GroupSpec> groups;  // by name
  std::vector<ZoneSpec> zones;    // in the order of the file
  FabricSpec fabric;
  bool operator==(const ClusterSpec&) const = default;
};

inline constexpr size_t kClusterNodesMax = 100'000;

[[nodiscard]] size_t CountNodes(const ClusterSpec& cluster);
[[nodiscard]] size_t CountNodes(const ZoneSpec& zone);
// nullptr when there is none.
[[nodiscard]] const GroupSpec* FindGroup(const ClusterSpec& cluster, std::string_view name);

// Names of nodes, leaves, zones and groups become file names, table cells and JSON: at most 63
// letters, digits, '.', '_' and '-', the first a letter or digit.
[[nodiscard]] bool IsPlainName(std::string_view name);

// Where each node of a cluster is. Holds the cluster it speaks of; immutable.
class ClusterMap {
 public:
  struct Place {
    const GroupSpec* group = nullptr;
    const ZoneSpec* zone = nullptr;
    const LeafSpec* leaf = nullptr;
  };

  explicit ClusterMap(ClusterSpec cluster);
  ClusterMap(const ClusterMap&) = delete;
  ClusterMap& operator=(const ClusterMap&) = delete;

  [[nodiscard]] const ClusterSpec& cluster() const { return cluster_; }
  // nullptr for a node that is not in the cluster. Cost: O(log nodes).
  [[nodiscard]] const Place* Find(std::string_view node) const;
  // nullptr for a leaf that is not in the cluster. Cost: O(log leaves).
  [[nodiscard]] const ZoneSpec* ZoneOfLeaf(std::string_view leaf) const;

 private:
  const ClusterSpec cluster_;
  std::vector<std::pair<std::string_view, Place>> places_;            // by node
  std::vector<std::pair<std::string_view, const ZoneSpec*>> leaves_;  // by leaf
};

}  // namespace tide
