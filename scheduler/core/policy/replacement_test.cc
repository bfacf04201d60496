#include "scheduler/core/policy/replacement.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using NodeNumbers = std::vector<uint32_t>;

std::vector<NodeId> Nodes(const NodeNumbers& ids) {
  return {ids.begin(), ids.end()};
}

PlacementResult Replace(const World& world,
                        const NodeNumbers& former,
                        const NodeNumbers& free,
                        const std::string& zone = "single",
                        const NodeNumbers& suspects = {}) {
  PlacementRequest request;
  request.nodes = static_cast<uint32_t>(former.size());
  request.group = "default";
  request.zone = zone;
  request.former = Nodes(former);
  request.after_fault = true;
  request.suspects = Nodes(suspects);
  FreeNodes nodes(world.state.fabric);
  for (const uint32_t node : free) {
    nodes.Add(NodeId(node));
  }
  return PlaceAfterFault(nodes, request);
}

}  // namespace

TEST_CASE("a broken node is replaced, and only that, rule by rule") {
  // Zone A: leaves 0-3, 4-7, 8-11. Zone B: 12-15, 16-19.
  const World world(Cluster().Zone("A").Leaf(4).Leaf(4).Leaf(4).Zone("B").Leaf(4).Leaf(4));
  struct Row {
    const char* rule;
    NodeNumbers former;
    NodeNumbers free;
    NodeNumbers expected;
  };
  const std::vector<Row> rows = {
      {"nothing is missing: the same again", {5, 0, 1}, {0, 1, 2, 5}, {5, 0, 1}},
      {"the same leaf comes first", {0, 1, 4}, {0, 2, 4, 5, 6}, {0, 2, 4}},
      {"then a leaf of the gang's", {0, 1, 4}, {0, 4, 5, 6, 8}, {0, 5, 4}},
      {"of those the emptiest: whole leaves stay whole",
       {0, 1, 4, 8},
       {0, 4, 8, 5, 6, 7, 9},
       {0, 9, 4, 8}},
      {"then a leaf that has enough, left emptiest",
       {0, 1, 2, 3},
       {0, 1, 4, 5, 6, 8, 9},
       {0, 1, 8, 9}},
      {"each lost node finds one in its own leaf", {0, 1, 4, 5}, {0, 4, 3, 7, 8}, {0, 3, 4, 7}},
      {"too few are left: placed anew", {0, 1, 4, 5}, {0, 2, 8, 9, 10, 11}, {8, 9, 10, 11}},
      {"its zone has no other: placed anew elsewhere", {0, 1, 4}, {0, 1, 12, 13, 14}, {12, 13, 14}},
      {"no room anywhere", {0, 1, 4}, {0, 1, 12}, {}},
  };
  for (const Row& row : rows) {
    INFO(row.rule);
    CHECK(Replace(world, row.former, row.free).nodes == Nodes(row.expected));
  }
}

TEST_CASE("a replacement crosses zones only where no zone can hold the gang") {
  const World world(Cluster().Zone("A").Leaf(4).Zone("B").Leaf(4).Zone("C").Leaf(4));
  CHECK(Replace(world, {0, 1, 2}, {0, 1, 4, 8, 9}, "cross-ok").nodes == Nodes({0, 1, 4}));
  CHECK(Replace(world, {0, 1, 2}, {0, 2, 4, 8}, "cross-ok").nodes == Nodes({0, 4, 2}));
  CHECK(Replace(world, {0, 4, 5}, {0, 4, 1, 8}, "cross-ok").nodes == Nodes({0, 4, 1}));
  CHECK(Replace(world, {0, 4, 5}, {0, 4, 6, 1}, "cross-ok").nodes == Nodes({0, 4, 6}));
  CHECK(Replace(world, {0, 1, 2}, {0, 1, 4, 5, 6}, "cross-ok").nodes == Nodes({4, 5, 6}));
  // A third zone, where the gang's two have no more.
  CHECK(Replace(world, {0, 1, 4, 5}, {0, 4, 5, 8}, "cross-ok").nodes == Nodes({0, 8, 4, 5}));
  CHECK(Replace(world, {0, 1, 2, 3, 4}, {0, 1, 4, 5, 8}, "cross-ok").nodes ==
        Nodes({0, 1, 5, 8, 4}));
  CHECK(Replace(world, {0, 1, 2}, {0, 1, 4}).nodes.empty());
  CHECK(Replace(world, {0, 1, 2}, {0, 1, 4}, "A").nodes.empty());
}

TEST_CASE("who took a task down is kept only when nothing else is free in its zone") {
  const World world(Cluster().Zone("A").Leaf(4).Zone("B").Leaf(4));
  CHECK(Replace(world, {0, 1}, {0, 1, 2}, "single", {1}).nodes == Nodes({0, 2}));
  CHECK(Replace(world, {0, 1}, {0, 1, 4, 5}, "single", {1}).nodes == Nodes({0, 1}));
  // The whole gang was cut off: no node is worse than the others.
  CHECK(Replace(world, {0, 1}, {0, 1, 2}, "single", {0, 1}).nodes == Nodes({0, 1}));
}

TEST_CASE("random losses: who is left stays, one zone when one can hold it, as Place else") {
  const World world(Cluster().Zone("A").Leaf(4).Leaf(3).Leaf(5).Zone("B").Leaf(4).Leaf(6));
  Prng prng(7);
  size_t replaced = 0;
  for (int round = 0; round < 20'000; ++round) {
    const bool in_a = prng.Below(2) == 0;
    const auto size = static_cast<size_t>(2 + prng.Below(6));
    NodeNumbers former;
    NodeNumbers free;
    for (uint32_t node = in_a ? 0 : 12; node < (in_a ? 12U : 22U); ++node) {
      former.insert(former.begin() + static_cast<std::ptrdiff_t>(prng.Below(former.size() + 1)),
                    node);
    }
    former.resize(size);
    for (uint32_t node = 0; node < 22; ++node) {
      const bool was = std::ranges::find(former, node) != former.end();
      if (prng.Below(4) < (was ? 3U : 1U)) {
        free.push_back(node);
      }
    }
    const std::vector<NodeId> nodes = Replace(world, former, free).nodes;
    const auto is_free = [&](uint32_t node) { return std::ranges::find(free, node) != free.end(); };
    const size_t left = static_cast<size_t>(std::ranges::count_if(former, is_free));
    const auto there = static_cast<size_t>(
        std::ranges::count_if(free, [&](uint32_t node) { return (node < 12) == in_a; }));
    INFO("round " << round);
    REQUIRE(nodes.empty() == (there < size && free.size() - there < size));
    REQUIRE_FALSE(world.state.fabric.Crosses(nodes));
    if (2 * left < size || there < size) {
      continue;
    }
    ++replaced;
    REQUIRE(std::ranges::all_of(nodes, [&](NodeId node) { return is_free(node.value()); }));
    REQUIRE(std::set<NodeId>(nodes.begin(), nodes.end()).size() == size);
    for (size_t task = 0; task < size; ++task) {
      REQUIRE((nodes[task].value() == former[task]) == is_free(former[task]));
    }
  }
  CHECK(replaced > 5'000);
}

}  // namespace tide::testing
