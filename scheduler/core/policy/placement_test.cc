#include "scheduler/core/policy/placement.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

std::vector<NodeId> Ids(const std::vector<uint32_t>& values) {
  std::vector<NodeId> ids;
  for (const uint32_t value : values) {
    ids.emplace_back(value);
  }
  return ids;
}

std::vector<NodeId> AllOf(const World& world) {
  std::vector<NodeId> ids;
  for (const Node& node : world.state.nodes) {
    ids.push_back(node.id);
  }
  return ids;
}

// The usable nodes as a set.
PlacementResult Place(const ClusterState& state,
                      const PlacementRequest& request,
                      const std::vector<NodeId>& usable) {
  FreeNodes free(state.fabric);
  for (const NodeId node : usable) {
    free.Add(node);
  }
  const PlacementResult result = tide::Place(free, request);
  CHECK(Fits(free, request) == !result.nodes.empty());
  return result;
}

PlacementRequest Ask(uint32_t nodes, const std::string& zone = "single") {
  PlacementRequest request;
  request.nodes = nodes;
  request.group = "default";
  request.zone = zone;
  return request;
}

struct Row {
  const char* rule;
  uint32_t nodes;
  std::vector<uint32_t> usable;
  std::vector<uint32_t> expected;
};

}  // namespace

TEST_CASE("placement inside zones, rule by rule") {
  // Zone A: leaf 1 = 0-3, leaf 2 = 4-7. Zone B: leaf 1 = 8-9, leaf 2 = 10-11, leaf 3 = 12-13.
  const World world(Cluster().Zone("A").Leaf(4).Leaf(4).Zone("B").Leaf(2).Leaf(2).Leaf(2));
  const std::vector<Row> rows = {
      {"the zone that is left fullest", 2, {0, 1, 2, 8, 9}, {8, 9}},
      {"equal zones: the lower name", 1, {0, 8}, {0}},
      {"only the zone that holds it", 3, {0, 1, 2, 8, 9}, {0, 1, 2}},
      {"one leaf rather than two", 2, {0, 4, 5, 6}, {4, 5}},
      {"the leaf that fits exactly", 2, {0, 1, 2, 4, 5}, {4, 5}},
      {"equal leaves: the lower name", 2, {0, 1, 4, 5}, {0, 1}},
      {"the fullest leaf whole, then the smallest rest", 5, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4}},
      {"ranks leaf by leaf", 4, {4, 5, 6, 0, 1}, {0, 4, 5, 6}},
      {"three leaves when it must be", 5, {8, 9, 10, 11, 12}, {8, 9, 10, 11, 12}},
      {"whole leaves stay whole", 1, {8, 9, 10, 12, 13}, {10}},
      {"no zone holds it", 4, {0, 1, 2, 8, 9, 10}, {}},
      {"nothing is free", 1, {}, {}},
  };
  for (const Row& row : rows) {
    INFO(row.rule);
    CHECK(Place(world.state, Ask(row.nodes), Ids(row.usable)).nodes == Ids(row.expected));
  }
}

TEST_CASE("a named zone is a promise") {
  const World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(3));
  CHECK(Place(world.state, Ask(2, "B"), AllOf(world)).nodes == Ids({2, 3}));
  const PlacementResult none = Place(world.state, Ask(3, "A"), AllOf(world));
  CHECK(none.nodes.empty());
  CHECK_FALSE(none.cross_zone_would_fit);
  CHECK(Place(world.state, Ask(1, "C"), AllOf(world)).nodes.empty());
}

TEST_CASE("across as few zones as hold it, each part contiguous") {
  const World world(
      Cluster().Zone("A").Leaf(2).Zone("B").Leaf(4).Zone("C").Leaf(3).Zone("D").Leaf(1));
  const auto place = [&](uint32_t nodes) {
    return Place(world.state, Ask(nodes, "cross-ok"), AllOf(world)).nodes;
  };
  CHECK(place(7) == Ids({2, 3, 4, 5, 6, 7, 8}));
  CHECK(place(9) == Ids({2, 3, 4, 5, 6, 7, 8, 0, 1}));
  CHECK(place(10) == Ids({2, 3, 4, 5, 6, 7, 8, 0, 1, 9}));
  CHECK(place(11).empty());
}

TEST_CASE("across two zones only when the rule allows, no zone holds it and none other does") {
  const World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(3).Zone("C").Leaf(1));
  CHECK(Place(world.state, Ask(3, "cross-ok"), AllOf(world)).nodes == Ids({2, 3, 4}));
  PlacementRequest wide = Ask(5, "cross-ok");
  const std::vector<NodeId> split = Place(world.state, wide, AllOf(world)).nodes;
  CHECK(split == Ids({2, 3, 4, 0, 1}));  // the larger zone first, each part contiguous
  CHECK(world.state.fabric.Crosses(split));
  CHECK_FALSE(world.state.fabric.Crosses(Ids({2, 3, 4})));
  wide.cross_zone_free = false;
  const PlacementResult busy = Place(world.state, wide, AllOf(world));
  CHECK(busy.nodes.empty());
  CHECK(busy.cross_zone_busy);
  const PlacementResult single = Place(world.state, Ask(5), AllOf(world));
  CHECK(single.nodes.empty());
  CHECK(single.cross_zone_would_fit);
}

TEST_CASE("former nodes decide ties and nothing else") {
  const World world(Cluster().Zone("A").Leaf(3).Leaf(3).Zone("B").Leaf(6));
  PlacementRequest request = Ask(1);
  request.former = Ids({2});
  CHECK(Place(world.state, request, Ids({0, 1, 2})).nodes == Ids({2}));
  request.former = Ids({5});
  CHECK(Place(world.state, request, Ids({0, 1, 2, 3, 4, 5})).nodes == Ids({5}));  // equal leaves
  CHECK(Place(world.state, request, Ids({0, 1, 3, 4, 5})).nodes == Ids({0}));  // not a worse leaf
  request.former = Ids({7});
  CHECK(Place(world.state, request, Ids({0, 6, 7})).nodes == Ids({0}));  // not a worse zone
  CHECK(Place(world.state, request, Ids({0, 7})).nodes == Ids({7}));     // equal zones
}

TEST_CASE("nodes that have the image decide ties where no former node is free") {
  const World world(Cluster().Zone("A").Leaf(3).Leaf(3).Zone("B").Leaf(6));
  WarmImages warm;
  PlacementRequest request = Ask(1);
  request.warm = &warm;
  request.image = "train:1";
  warm.Set(NodeId(2), {"train:1", "eval:1"});
  warm.Set(NodeId(7), {"train:1"});
  warm.Set(NodeId(1), {"train:2"});
  warm.Set(NodeId(99), {"train:1"});  // joined, and not in the fabric yet
  CHECK(Place(world.state, request, Ids({0, 1, 2})).nodes == Ids({2}));
  CHECK(Place(world.state, request, Ids({0, 2, 3, 4, 5})).nodes == Ids({2}));
  CHECK(Place(world.state, request, Ids({0, 1, 2, 3, 4})).nodes == Ids({3}));  // not a worse leaf
  CHECK(Place(world.state, request, Ids({0, 6, 7})).nodes == Ids({0}));        // not a worse zone
  CHECK(Place(world.state, request, Ids({0, 7})).nodes == Ids({7}));           // equal zones
  request.former = Ids({0});
  CHECK(Place(world.state, request, Ids({0, 1, 2})).nodes == Ids({0}));  // it knows more than that
  CHECK(Place(world.state, request, Ids({1, 2})).nodes == Ids({2}));     // it is not free
  request.former.clear();
  warm.Set(NodeId(2), {"eval:1"});  // it was collected
  CHECK(Place(world.state, request, Ids({0, 1, 2})).nodes == Ids({0}));
  request.image = "host";
  CHECK(Place(world.state, request, Ids({1, 2})).nodes == Ids({1}));
}

TEST_CASE("two leaves that are filled together come before one that is cut into") {
  const World world(Cluster().Leaf(5).Leaf(4).Leaf(3).Leaf(2));
  CHECK(Place(world.state, Ask(6), AllOf(world)).nodes == Ids({5, 6, 7, 8, 12, 13}));
  CHECK(Place(world.state, Ask(7), AllOf(world)).nodes == Ids({0, 1, 2, 3, 4, 12, 13}));
}

TEST_CASE("nodes of another group or with too few GPUs do not exist for a job") {
  World world(Cluster().Gpus(4).Leaf(2).Gpus(8).Leaf(2).Group("cpu").Leaf(2));
  const JobId big = world.Submit(AJob().Nodes(2).Gpus(8));
  CHECK(world.NodesOf(big) == std::vector<uint32_t>{2, 3});
  CHECK(Place(world.state, Ask(4), AllOf(world)).nodes.size() == 4);
  CHECK(Place(world.state, Ask(5), AllOf(world)).nodes.empty());
  PlacementRequest request = Ask(3);
  request.group = "cpu";
  CHECK(Place(world.state, request, AllOf(world)).nodes.empty());
}

TEST_CASE("the order of the usable nodes does not matter") {
  const World world(Cluster().Zone("A").Leaf(4).Leaf(3).Zone("B").Leaf(4).Leaf(4));
  Prng prng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<NodeId> usable;
    for (const NodeId id : AllOf(world)) {
      if (prng.Below(3) > 0) {
        usable.push_back(id);
      }
    }
    PlacementRequest request = Ask(static_cast<uint32_t>(1 + prng.Below(10)), "cross-ok");
    request.former = {NodeId(static_cast<uint32_t>(prng.Below(15)))};
    const PlacementResult sorted = Place(world.state, request, usable);
    for (size_t i = usable.size(); i > 1; --i) {
      std::swap(usable[i - 1], usable[prng.Below(i)]);
    }
    CHECK(Place(world.state, request, usable).nodes == sorted.nodes);
    std::vector<NodeId> distinct = sorted.nodes;
    std::sort(distinct.begin(), distinct.end());
    CHECK(std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end());
    CHECK((sorted.nodes.empty() || sorted.nodes.size() == request.nodes));
  }
}

}  // namespace tide::testing
