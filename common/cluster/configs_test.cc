// The clusters of configs/ are read, and are what their texts say.

#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "common/cluster/cluster_text.h"

using namespace tide;

namespace {

ClusterSpec Load(const std::string& name) {
  const auto cluster = LoadClusterFile(std::string(TIDE_SOURCE_DIR) + "/configs/" + name + ".yaml");
  INFO((cluster ? "" : cluster.error().message));
  REQUIRE(cluster);
  CHECK(cluster->name == name);
  return *cluster;
}

size_t CountGpus(const ClusterSpec& cluster) {
  size_t gpus = 0;
  for (const ZoneSpec& zone : cluster.zones) {
    for (const LeafSpec& leaf : zone.leaves) {
      gpus += leaf.nodes.size() * FindGroup(cluster, leaf.group)->gpus_per_node;
    }
  }
  return gpus;
}

}  // namespace

TEST_CASE("fire-flyer: two zones of 40 leaves, 1,250 nodes, 10,000 GPUs") {
  const ClusterSpec cluster = Load("fire-flyer");
  REQUIRE(cluster.zones.size() == 2);
  for (const ZoneSpec& zone : cluster.zones) {
    CHECK(zone.leaves.size() == 40);
    CHECK(CountNodes(zone) == 625);
    for (const LeafSpec& leaf : zone.leaves) {
      CHECK(leaf.nodes.size() <= 20);  // half of a switch's 40 ports go up
    }
  }
  CHECK(cluster.zones[1].leaves[39].name == "b-l40");
  CHECK(cluster.zones[1].leaves[39].nodes.back() == "b-l40-n15");
  CHECK(CountGpus(cluster) == 10'000);
  CHECK(cluster.fabric == FabricSpec{1, 8});
}

TEST_CASE("tapered: zones of 256 racks of two nodes, a seventh of the links between them") {
  const ClusterSpec cluster = Load("tapered");
  REQUIRE(cluster.zones.size() == 6);
  for (const ZoneSpec& zone : cluster.zones) {
    CHECK(zone.leaves.size() == 256);
    CHECK(CountNodes(zone) == 512);
  }
  CHECK(CountGpus(cluster) == 24'576);
  CHECK(cluster.fabric.cross_zone_links == 512 * 8 / 7);
  REQUIRE(cluster.fabric.boundaries.size() == 15);
  CHECK(cluster.fabric.boundaries.front() == Boundary{"Z1", "Z2", kNoLimit, 14});
}

TEST_CASE("one-machine: one node with what an agent is named by default") {
  const ClusterSpec cluster = Load("one-machine");
  CHECK(cluster.zones.size() == 1);
  CHECK(cluster.zones[0].name == "A");
  REQUIRE(CountNodes(cluster) == 1);
  CHECK(cluster.zones[0].leaves[0] == LeafSpec{"l1", "default", {"localhost"}});
}

TEST_CASE("the example of the README is read") {
  const auto readme = ReadFile(std::string(TIDE_SOURCE_DIR) + "/configs/README.md");
  REQUIRE(readme);
  const std::string fence = "```yaml\n";
  const size_t begin = readme->find(fence) + fence.size();
  const auto parsed = ParseClusterFile(readme->substr(begin, readme->find("```", begin) - begin));
  CHECK(parsed.findings.empty());
  CHECK(CountNodes(parsed.cluster) == 16 + 10 + 640);
}

TEST_CASE("a file that is not there or not right says so") {
  CHECK(LoadClusterFile("/nowhere/cluster.yaml").error().code == ErrorCode::kNotFound);
  const std::string readme = std::string(TIDE_SOURCE_DIR) + "/configs/README.md";
  const auto refused = LoadClusterFile(readme);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message.starts_with("the cluster file has mistakes:\n" + readme + ":"));
}
