// A cluster file made of a real fabric: 847 hosts in three pods. Leaf switches are numbered in each
// pod anew: 48 numbers, 119 switches of at most 8 hosts.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <sstream>

#include "common/base/file.h"
#include "common/cluster/cluster_text.h"

using namespace tide;

namespace {

std::string TraceFolder() {
  const char* named = std::getenv("TIDE_TRACES");  // NOLINT(concurrency-mt-unsafe): one thread
  return named != nullptr ? named : std::string(TIDE_SOURCE_DIR) + "/../shared/data/traces";
}

using Leaves = std::map<std::string, std::vector<std::string>>;  // switch → hosts

// Pod → leaves, from lines "host,DSW,PSW,ASW".
std::map<std::string, Leaves> ReadFabric(const std::string& csv) {
  std::map<std::string, Leaves> pods;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string host;
    std::string core;
    std::string pod;
    std::string leaf;
    std::getline(fields, host, ',');
    std::getline(fields, core, ',');
    std::getline(fields, pod, ',');
    std::getline(fields, leaf);
    pods[pod][pod + "-" + leaf].push_back(host.substr(0, 16));
  }
  return pods;
}

}  // namespace

TEST_CASE("a real fabric of irregular names fits into a cluster file") {
  const auto csv = ReadFile(TraceFolder() + "/topology-847hosts.csv");
  if (!csv) {
    WARN("skipped: no topology-847hosts.csv in " << TraceFolder() << "; TIDE_TRACES names it");
    return;
  }
  const auto pods = ReadFabric(*csv);
  std::string text = "version: 1\nname: real\ngroups: { gpu: { gpus_per_node: 8 } }\nzones:\n";
  for (const auto& [pod, leaves] : pods) {
    text += "  - name: " + pod + "\n    leaves:\n";
    for (const auto& [leaf, hosts] : leaves) {
      text += "      - { name: " + leaf + ", group: gpu, nodes: [";
      for (const std::string& host : hosts) {
        text += "\"" + host + "\", ";
      }
      text += "] }\n";
    }
  }
  const auto parsed = ParseClusterFile(text);
  REQUIRE(parsed.findings.empty());
  CHECK(parsed.cluster.zones.size() == 3);
  CHECK(CountNodes(parsed.cluster) == 847);
  size_t leaves = 0;
  for (const ZoneSpec& zone : parsed.cluster.zones) {
    leaves += zone.leaves.size();
  }
  CHECK(leaves == 119);
  const ClusterMap map(parsed.cluster);
  for (const auto& [pod, below] : pods) {
    for (const auto& [leaf, hosts] : below) {
      CHECK(hosts.size() <= 8);
      for (const std::string& host : hosts) {
        CHECK(map.Find(host)->leaf->name == leaf);
      }
    }
  }
}
