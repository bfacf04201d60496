#include "proto/wire/topology.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "proto/wire/state.h"

namespace tide::wire {
namespace {

using nlohmann::json;

// One job of one rank a node on nodes n0, n1 …, given as "zone/leaf", rank by rank.
struct Placed {
  ClusterState state;
  Job job;

  explicit Placed(const std::vector<std::string>& places) {
    job.attempts.emplace_back();
    for (const std::string& place : places) {
      Add("n" + std::to_string(state.nodes.size()), place);
    }
  }
  void Add(const std::string& name, const std::string& place) {
    Node node;
    node.id = NodeId(static_cast<uint32_t>(state.nodes.size()));
    node.identity.name = name;
    node.identity.zone = place.substr(0, place.find('/'));
    node.identity.leaf = place.substr(place.find('/') + 1);
    job.attempts.back().tasks.emplace_back().node = node.id;
    state.nodes.push_back(node);
  }
  [[nodiscard]] json Topology() const { return json::parse(TopologyJson(state, job)); }
};

// `nodes` nodes with names of 20 letters, 16 to a leaf, half in each zone.
Placed Large(size_t nodes) {
  Placed placed({});
  for (size_t i = 0; i < nodes; ++i) {
    const std::string zone = i < nodes / 2 ? "A" : "B";
    std::string name = "compute-" + zone + "-node-" + std::to_string(i);
    name.resize(20, 'x');
    placed.Add(name, zone + "/leaf-" + zone + std::to_string(i / 16));
  }
  return placed;
}

TEST_CASE("a job in one zone knows its leaves and its trees") {
  Placed placed({"A/l1", "A/l1", "A/l2"});
  placed.job.spec.Edit([](JobSpec& spec) { spec.ranks_per_node = 8; });
  CHECK(placed.Topology() == json::parse(R"({
    "version": 1, "ranks_per_node": 8,
    "zones": [["A", 3]], "leaves": [["l1", 2], ["l2", 1]], "nodes": ["n0", "n1", "n2"],
    "trees": [[1, -1, 1], [-1, 0, 0]],
    "cross_zone_pairs": {"plan": 0, "ring": 0, "nccl_tree": 0}})"));
}

TEST_CASE("the example of rank-protocol.md is what ranks get") {
  const auto text = ReadFile(std::string(TIDE_SOURCE_DIR) + "/docs/rank-protocol.md");
  REQUIRE(text);
  const std::string fence = "```json\n";
  const size_t begin = text->find(fence) + fence.size();
  Placed placed({});
  placed.job.spec.Edit([](JobSpec& spec) { spec.ranks_per_node = 8; });
  placed.Add("a-l01-n01", "A/a-l01");
  placed.Add("a-l01-n02", "A/a-l01");
  placed.Add("a-l02-n01", "A/a-l02");
  placed.Add("b-l01-n01", "B/b-l01");
  CHECK(placed.Topology() == json::parse(text->substr(begin, text->find("```", begin) - begin)));
}

TEST_CASE("a job across zones crosses on one pair of its plan") {
  const json topology = Placed({"A/l1", "A/l1", "A/l2", "B/l1", "B/l1"}).Topology();
  CHECK(topology["zones"] == json::parse(R"([["A",3],["B",2]])"));
  CHECK(topology["cross_zone_pairs"]["plan"] == 1);
  CHECK(topology["cross_zone_pairs"]["ring"] == 2);
  CHECK(topology["trees"][0][3] == 0);
  CHECK(topology["trees"][1][3] == 0);
}

TEST_CASE("leaves of different zones are different leaves, and a replaced node shows") {
  CHECK(Placed({"A/l1", "B/l1"}).Topology()["leaves"] == json::parse(R"([["l1",1],["l1",1]])"));
  const json replaced = Placed({"A/l1", "B/l9", "A/l1"}).Topology();
  CHECK(replaced["zones"] == json::parse(R"([["A",1],["B",1],["A",1]])"));
  CHECK(replaced["cross_zone_pairs"]["plan"] == 1);
}

TEST_CASE("the topology of a thousand nodes is whole, and of any number bounded") {
  const std::string thousand = [] {
    const Placed placed = Large(1'000);
    return TopologyJson(placed.state, placed.job);
  }();
  CHECK(thousand.size() < 40'000);
  CHECK(json::parse(thousand)["nodes"].size() == 1'000);
  const json many = Large(5'000).Topology();
  CHECK(many["nodes"].is_null());
  CHECK(many["trees"][1].size() == 5'000);
  const json more = Large(20'000).Topology();
  CHECK(more["trees"].is_null());
  CHECK(more["leaves"].size() == 1'250);
  const Placed most = Large(100'000);
  const std::string text = TopologyJson(most.state, most.job);
  CHECK(text.size() <= kTopologyBytesMax);
  CHECK(json::parse(text)["leaves"].is_null());
  CHECK(json::parse(text)["zones"] == json::parse(R"([["A",50000],["B",50000]])"));
}

TEST_CASE("even a job whose every neighbour is in the other zone has a topology") {
  Placed placed({});
  for (size_t i = 0; i < 20'000; ++i) {
    placed.Add("n", i % 2 == 0 ? "zone-a/l" : "zone-b/l");
  }
  CHECK(placed.Topology()["zones"].is_null());
}

TEST_CASE("a cached topology is that of the job and of the attempt") {
  Placed placed({"A/l1"});
  placed.job.id = JobId(1);
  TopologyCache cache;
  const std::string first = cache.Of(placed.state, placed.job);
  CHECK(first == TopologyJson(placed.state, placed.job));
  Placed other({"A/l1", "A/l1"});
  other.job.id = JobId(2);
  CHECK(cache.Of(other.state, other.job) == TopologyJson(other.state, other.job));
  CHECK(cache.Of(placed.state, placed.job) == first);
  placed.job.attempts.back().epoch = Epoch(2);
  placed.Add("n1", "A/l2");
  CHECK(cache.Of(placed.state, placed.job) == TopologyJson(placed.state, placed.job));
}

TEST_CASE("readers see the pairs of an attempt across zones, and only of such") {
  const Placed one({"A/l1", "A/l2"});
  CHECK_FALSE(ToProto(one.state, one.job).attempts(0).has_cross_zone_pairs());
  const Placed two({"A/l1", "A/l1", "A/l1", "A/l1", "B/l1", "B/l1", "B/l1", "B/l1"});
  const tide::v1::Job job = ToProto(two.state, two.job);
  REQUIRE(job.attempts(0).has_cross_zone_pairs());
  CHECK(job.attempts(0).cross_zone_pairs().plan() == 1);
  CHECK(job.attempts(0).cross_zone_pairs().ring() == 2);
  CHECK(job.attempts(0).cross_zone_pairs().nccl_tree() == NcclPairsByCut(8)[4]);
}

}  // namespace
}  // namespace tide::wire
