#include "common/fabric/comm_plan.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>

using namespace tide;

namespace {

using Zones = std::vector<uint32_t>;
using Pair = std::pair<int32_t, int32_t>;

Zones SplitOf(uint32_t nodes,
              std::span<const uint32_t> most,
              std::span<const uint32_t> pairs_max = {}) {
  return BestSplit(NcclPairsByCut(nodes), most, pairs_max);
}

// 2, 3 gives 0 0 1 1 1.
Zones Blocks(const std::vector<uint32_t>& sizes) {
  Zones zones;
  for (uint32_t zone = 0; zone < sizes.size(); ++zone) {
    zones.insert(zones.end(), sizes[zone], zone);
  }
  return zones;
}

uint32_t FloorLog2(uint32_t n) {
  uint32_t log = 0;
  while (n >>= 1U) {
    ++log;
  }
  return log;
}

// Distance of each node from the root; fails where parents are no tree.
std::vector<uint32_t> Depths(const std::vector<int32_t>& parents) {
  std::vector<uint32_t> depths;
  for (int32_t node = 0; node < static_cast<int32_t>(parents.size()); ++node) {
    uint32_t depth = 0;
    for (int32_t up = node; parents[static_cast<size_t>(up)] != kNoParent; ++depth) {
      up = parents[static_cast<size_t>(up)];
      if (depth > parents.size()) {
        FAIL("a cycle at node " << node);
      }
    }
    depths.push_back(depth);
  }
  return depths;
}

std::vector<uint32_t> CountChildren(const std::vector<int32_t>& parents) {
  std::vector<uint32_t> children(parents.size());
  for (const int32_t parent : parents) {
    if (parent != kNoParent) {
      ++children[static_cast<size_t>(parent)];
    }
  }
  return children;
}

// Pairs of different zones in one tree.
std::set<Pair> Crossing(const std::vector<int32_t>& parents, const Zones& zones) {
  std::set<Pair> pairs;
  for (size_t node = 0; node < parents.size(); ++node) {
    const int32_t up = parents[node];
    if (up != kNoParent && zones[node] != zones[static_cast<size_t>(up)]) {
      pairs.insert(std::minmax(static_cast<int32_t>(node), up));
    }
  }
  return pairs;
}

// What holds for every plan over these zones. Reports once: there are a great many plans.
void CheckPlan(const Zones& zones) {
  const CommPlan plan = MakeCommPlan(zones);
  const std::set<uint32_t> kinds(zones.begin(), zones.end());
  std::map<uint32_t, uint32_t> rank_of_zone;  // by first node
  std::map<uint32_t, uint32_t> size;
  std::set<size_t> gateways;
  for (size_t node = 0; node < zones.size(); ++node) {
    if (rank_of_zone.emplace(zones[node], rank_of_zone.size()).second && kinds.size() > 1) {
      gateways.insert(node);
    }
    ++size[zones[node]];
  }
  std::string wrong;
  const auto expect = [&](bool good, const char* rule) { wrong += good ? "" : rule; };
  std::array<std::vector<uint32_t>, 2> children;
  for (size_t tree = 0; tree < 2; ++tree) {
    const auto& parents = plan.parents[tree];
    children[tree] = CountChildren(parents);
    const auto depths = Depths(parents);
    expect(std::count(parents.begin(), parents.end(), kNoParent) == 1, "one root; ");
    expect(std::ranges::max(children[tree]) <= 2, "binary; ");
    for (size_t node = 0; node < zones.size(); ++node) {
      const uint32_t most =
          kinds.size() == 1
              ? FloorLog2(size[zones[node]])
              : rank_of_zone[zones[node]] +
                    (gateways.contains(node) ? 0 : 1 + FloorLog2(size[zones[node]] - 1));
      expect(depths[node] <= most, "height; ");
    }
  }
  const auto crossing = Crossing(plan.parents[0], zones);
  expect(crossing == Crossing(plan.parents[1], zones), "the same pairs in both trees; ");
  expect(crossing.size() == kinds.size() - 1, "one pair per boundary; ");
  for (size_t node = 0; node < zones.size(); ++node) {
    expect(gateways.contains(node) || children[0][node] == 0 || children[1][node] == 0,
           "inner in at most one tree; ");
  }
  for (size_t node = 0; node < zones.size(); ++node) {
    uint32_t links = 0;
    for (size_t tree = 0; tree < 2; ++tree) {
      links += children[tree][node] + (plan.parents[tree][node] == kNoParent ? 0 : 1);
    }
    expect(links <= (kinds.size() > 2 && gateways.contains(node) ? 6 : 4), "load; ");
  }
  if (!wrong.empty()) {
    FAIL_CHECK(wrong << zones.size() << " nodes in " << kinds.size() << " zones, first "
                     << size[zones[0]]);
  }
}

// NCCL's first tree, made by descending instead of by bits: the positions low … high of a full tree
// around their middle. A middle that is no node leaves its children to whoever is above it.
void Descend(int32_t low, int32_t high, int32_t above, std::vector<int32_t>& parents) {
  if (low > high || low >= static_cast<int32_t>(parents.size())) {
    return;
  }
  const int32_t middle = (low + high) / 2;
  const bool there = middle < static_cast<int32_t>(parents.size());
  if (there) {
    parents[static_cast<size_t>(middle)] = above;
  }
  Descend(low, middle - 1, there ? middle : above, parents);
  Descend(middle + 1, high, there ? middle : above, parents);
}

std::array<std::vector<int32_t>, 2> NcclByDescent(int32_t nodes) {
  std::vector<int32_t> first(static_cast<size_t>(nodes), kNoParent);
  Descend(1, 1023, 0, first);  // a full tree of more than 256 nodes
  std::vector<int32_t> second(first.size(), kNoParent);
  for (int32_t node = 1; node < nodes; ++node) {
    const int32_t parent = first[static_cast<size_t>(node)];
    const bool even = nodes % 2 == 0;
    second[static_cast<size_t>(even ? nodes - 1 - node : (node + 1) % nodes)] =
        even ? nodes - 1 - parent : (parent + 1) % nodes;
  }
  return {first, second};
}

TEST_CASE("a job goes from each zone to the next, over every split of six zones") {
  constexpr uint32_t kNodesMax = 14;
  for (uint32_t nodes = 6; nodes <= kNodesMax; ++nodes) {
    const std::vector<uint32_t> by_cut = NcclPairsByCut(nodes);
    for (uint32_t cuts = 0; cuts < 1U << (nodes - 1); ++cuts) {  // bit i: between nodes i and i + 1
      if (std::popcount(cuts) != 5) {
        continue;
      }
      Zones zones = {0};
      std::vector<ZoneCrossing> expected;
      for (uint32_t node = 1; node < nodes; ++node) {
        const bool cut = (cuts >> (node - 1) & 1U) != 0;
        if (cut) {
          expected.push_back({zones.back(), zones.back() + 1, by_cut[node]});
        }
        zones.push_back(zones.back() + (cut ? 1 : 0));
      }
      REQUIRE(CrossingsOf(zones) == expected);
      REQUIRE(CountCrossZonePairs(zones).plan == 5);
    }
  }
  // Where a zone's nodes do not lie side by side, its pairs count at each boundary between.
  CHECK(CrossingsOf(Zones{4, 7, 4}) ==
        std::vector<ZoneCrossing>{{4, 7, CountCrossZonePairs(Zones{4, 7, 4}).nccl_tree}});
  CHECK(CrossingsOf(Zones{3, 3}).empty());
  CHECK(CrossingsOf({}).empty());
}

TEST_CASE("limits of pairs rule out cuts") {
  const std::vector<uint32_t> by_cut = NcclPairsByCut(24);
  for (uint32_t limit = 0; limit <= 12; ++limit) {
    const std::vector<uint32_t> parts = SplitOf(24, std::array{20U, 20U}, std::array{limit});
    const bool any = std::any_of(
        by_cut.begin() + 4, by_cut.begin() + 21, [&](uint32_t pairs) { return pairs <= limit; });
    REQUIRE(parts.empty() == !any);
    REQUIRE((parts.empty() || by_cut[parts[0]] <= limit));
  }
}

}  // namespace

TEST_CASE("one zone: two trees of which each node leads at most one") {
  for (uint32_t nodes = 1; nodes <= 256; ++nodes) {
    CheckPlan(Blocks({nodes}));
  }
  CHECK(MakeCommPlan(Zones{}).parents[0].empty());
}

TEST_CASE("two zones: one pair across, for all sizes and all splits") {
  for (uint32_t nodes = 2; nodes <= 256; ++nodes) {
    for (uint32_t first = 1; first < nodes; ++first) {
      CheckPlan(Blocks({first, nodes - first}));
    }
  }
}

TEST_CASE("three zones: two pairs across, for all splits of up to 48 nodes") {
  for (uint32_t nodes = 3; nodes <= 48; ++nodes) {
    for (uint32_t first = 1; first + 2 <= nodes; ++first) {
      for (uint32_t second = 1; first + second < nodes; ++second) {
        CheckPlan(Blocks({first, second, nodes - first - second}));
      }
    }
  }
  CheckPlan(Blocks({80, 96, 80}));
  CheckPlan(Blocks({512, 512, 512, 512, 512, 512}));
}

TEST_CASE("zones need not lie side by side: a node was replaced from elsewhere") {
  for (uint32_t bits = 0; bits < 4096; ++bits) {
    Zones zones;
    for (uint32_t node = 0; node < 12; ++node) {
      zones.push_back(bits >> node & 1U);
    }
    CheckPlan(zones);
  }
}

TEST_CASE("NCCL's trees are those of its published rule, for all sizes up to 256") {
  for (uint32_t nodes = 1; nodes <= 256; ++nodes) {
    const auto want = NcclByDescent(static_cast<int32_t>(nodes));
    std::array<std::vector<int32_t>, 2> got;
    for (uint32_t tree = 0; tree < 2; ++tree) {
      for (uint32_t node = 0; node < nodes; ++node) {
        got[tree].push_back(NcclParent(nodes, tree, node));
      }
    }
    INFO(nodes);
    CHECK(got == want);
  }
  // By hand, 6 nodes: 0 → 4 → {2 → {1, 3}, 5}, and its mirror.
  const auto six = NcclByDescent(6);
  CHECK(six[0] == std::vector<int32_t>{-1, 2, 4, 2, 0, 4});
  CHECK(six[1] == std::vector<int32_t>{1, 5, 3, 1, 3, -1});
}

TEST_CASE("the pairs of each cut are those that can be counted one by one") {
  for (uint32_t nodes = 1; nodes <= 256; ++nodes) {
    const auto trees = NcclByDescent(static_cast<int32_t>(nodes));
    const auto by_cut = NcclPairsByCut(nodes);
    REQUIRE(by_cut.size() == nodes + 1);
    CHECK(by_cut.front() == 0);
    CHECK(by_cut.back() == 0);
    for (uint32_t cut = 1; cut < nodes; cut += nodes > 64 ? 7 : 1) {
      const Zones zones = Blocks({cut, nodes - cut});
      auto pairs = Crossing(trees[0], zones);
      pairs.merge(Crossing(trees[1], zones));
      const CrossZonePairs count = CountCrossZonePairs(zones);
      CHECK(count == CrossZonePairs{1, nodes == 2 ? 1U : 2U, static_cast<uint32_t>(pairs.size())});
      CHECK(by_cut[cut] == pairs.size());
    }
  }
}

TEST_CASE("the ranges that scheduling.md states") {
  struct Case {
    uint32_t nodes;
    uint32_t fewest;
    uint32_t most;
  };
  for (const Case& each : {Case{8, 2, 4}, {24, 2, 8}, {100, 2, 11}, {127, 3, 15}}) {
    const auto pairs = NcclPairsByCut(each.nodes);
    CHECK(*std::min_element(pairs.begin() + 1, pairs.end() - 1) == each.fewest);
    CHECK(*std::max_element(pairs.begin() + 1, pairs.end() - 1) == each.most);
  }
}

TEST_CASE("three zones in a ring and in NCCL's trees") {
  CHECK(CountCrossZonePairs(Blocks({4, 4, 4})).ring == 3);
  CHECK(CountCrossZonePairs(Blocks({4})) == CrossZonePairs{0, 0, 0});
  CHECK(CountCrossZonePairs(Blocks({1, 1})) == CrossZonePairs{1, 1, 1});
  CHECK(CountCrossZonePairs({}) == CrossZonePairs{0, 0, 0});
}

TEST_CASE("the best split has the fewest pairs of all that fit") {
  for (uint32_t nodes = 2; nodes <= 64; ++nodes) {
    const auto pairs = NcclPairsByCut(nodes);
    for (uint32_t first_max = 0; first_max <= nodes + 1; ++first_max) {
      for (uint32_t second_max = 0; second_max <= nodes + 1; ++second_max) {
        uint32_t best = 0;
        for (uint32_t cut = 1; cut < nodes; ++cut) {
          const bool fits = cut <= first_max && nodes - cut <= second_max;
          best = fits && (best == 0 || pairs[cut] <= pairs[best]) ? cut : best;
        }
        const Zones expected = best == 0 ? Zones{} : Zones{best, nodes - best};
        if (SplitOf(nodes, std::array{first_max, second_max}) != expected) {
          FAIL_CHECK(nodes << " nodes, at most " << first_max << " and " << second_max);
        }
      }
    }
  }
  CHECK(SplitOf(0, std::array{5U, 5U}).empty());
  CHECK(SplitOf(1, std::array{5U, 5U}).empty());
  CHECK(SplitOf(5, {}).empty());
  CHECK(SplitOf(5, std::array{7U}) == Zones{5});
  CHECK(SplitOf(100, std::array{4'000'000'000U, 4'000'000'000U}).size() == 2);
}

TEST_CASE("the best split over six zones has the fewest pairs of all that fit") {
  for (uint32_t nodes = 6; nodes <= 14; ++nodes) {
    const auto pairs = NcclPairsByCut(nodes);
    for (uint32_t most = 2; most <= 4; ++most) {
      const Zones limits = {most, 4, most, 1, 3, most};
      Zones best;
      uint32_t fewest = UINT32_MAX;
      Zones parts(limits.size());
      // Every way to fill the zones from this one on, those with the largest parts first.
      const std::function<void(size_t, uint32_t, uint32_t)> choose =
          [&](size_t zone, uint32_t cut, uint32_t crossing) {
            if (zone == parts.size()) {
              if (cut == nodes && crossing < fewest) {
                best = parts;
                fewest = crossing;
              }
              return;
            }
            for (uint32_t part = std::min(nodes - cut, limits[zone]); part >= 1; --part) {
              parts[zone] = part;
              choose(zone + 1, cut + part, crossing + pairs[cut + part]);
            }
          };
      choose(0, 0, 0);
      CAPTURE(nodes, most);
      CHECK(SplitOf(nodes, limits) == best);
    }
  }
}
