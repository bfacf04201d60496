#include "common/fabric/comm_plan.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/base/check.h"

namespace tide {
namespace {

// The tree in order over positions 1 … last: odd positions are leaves, the rest have children.
// Gives 0 for the root.
uint32_t InOrderParent(uint32_t position, uint32_t last) {
  const uint32_t low = position & (~position + 1);
  const uint32_t without = position ^ low;
  const uint32_t up = without | (low << 1U);
  return up <= last ? up : without;
}

// The same tree shifted by one: its inner nodes are odd positions.
uint32_t ShiftedParent(uint32_t position, uint32_t last) {
  const uint32_t up = InOrderParent(position % last + 1, last);
  return up == 0 ? 0 : up - 1;
}

// Puts a double binary tree over `members` below `above`.
void AddDoubleTree(std::span<const int32_t> members, int32_t above, CommPlan& plan) {
  const auto last = static_cast<uint32_t>(members.size());
  for (uint32_t position = 1; position <= last; ++position) {
    const std::array<uint32_t, 2> up = {InOrderParent(position, last),
                                        ShiftedParent(position, last)};
    const auto node = static_cast<size_t>(members[position - 1]);
    for (size_t tree = 0; tree < 2; ++tree) {
      plan.parents[tree][node] = up[tree] == 0 ? above : members[up[tree] - 1];
    }
  }
}

// The nodes of each zone in rank order; zones in the order of their first nodes.
std::vector<std::vector<int32_t>> GroupByZone(std::span<const uint32_t> zones) {
  std::map<uint32_t, size_t> index;
  std::vector<std::vector<int32_t>> members;
  for (size_t node = 0; node < zones.size(); ++node) {
    const auto [found, fresh] = index.emplace(zones[node], members.size());
    if (fresh) {
      members.emplace_back();
    }
    members[found->second].push_back(static_cast<int32_t>(node));
  }
  return members;
}

// True for the pairs of tree 1 that tree 0 has as well.
bool InTreeZero(const std::vector<int32_t>& tree_zero, size_t node, int32_t parent) {
  return tree_zero[node] == parent ||
         tree_zero[static_cast<size_t>(parent)] == static_cast<int32_t>(node);
}

// Hands each pair of the two trees to `take`, once.
template <typename Take>
void ForEachPair(const CommPlan& trees, const Take& take) {
  const auto& [zero, one] = trees.parents;
  for (size_t node = 0; node < zero.size(); ++node) {
    if (zero[node] != kNoParent) {
      take(node, static_cast<size_t>(zero[node]));
    }
    if (one[node] != kNoParent && !InTreeZero(zero, node, one[node])) {
      take(node, static_cast<size_t>(one[node]));
    }
  }
}

uint32_t CountCrossing(const CommPlan& trees, std::span<const uint32_t> zones) {
  uint32_t count = 0;
  ForEachPair(trees, [&](size_t a, size_t b) { count += zones[a] != zones[b] ? 1 : 0; });
  return count;
}

CommPlan NcclTrees(uint32_t nodes) {
  CommPlan trees;
  for (uint32_t tree = 0; tree < 2; ++tree) {
    for (uint32_t node = 0; node < nodes; ++node) {
      trees.parents[tree].push_back(NcclParent(nodes, tree, node));
    }
  }
  return trees;
}

uint32_t CountRing(std::span<const uint32_t> zones) {
  const size_t links = zones.size() == 2 ? 1 : zones.size();  // two nodes: there and back is a pair
  uint32_t count = 0;
  for (size_t node = 0; node < links; ++node) {
    count += zones[node] != zones[(node + 1) % zones.size()] ? 1 : 0;
  }
  return count;
}

}  // namespace

CommPlan MakeCommPlan(std::span<const uint32_t> zones) {
  CommPlan plan;
  plan.parents.fill(std::vector<int32_t>(zones.size(), kNoParent));
  const auto members = GroupByZone(zones);
  if (members.size() == 1) {
    AddDoubleTree(members.front(), kNoParent, plan);
    return plan;
  }
  int32_t previous = kNoParent;
  for (const auto& zone : members) {
    const int32_t gateway = zone.front();
    for (auto& parents : plan.parents) {
      parents[static_cast<size_t>(gateway)] = previous;
    }
    AddDoubleTree(std::span(zone).subspan(1), gateway, plan);
    previous = gateway;
  }
  return plan;
}

CrossZonePairs CountCrossZonePairs(std::span<const uint32_t> zones) {
  const auto nodes = static_cast<uint32_t>(zones.size());
  return {CountCrossing(MakeCommPlan(zones), zones),
          CountRing(zones),
          CountCrossing(NcclTrees(nodes), zones)};
}

int32_t NcclParent(uint32_t nodes, uint32_t tree, uint32_t node) {
  TIDE_CHECK(node < nodes && tree < 2, "a node of one of the two trees");
  const bool mirrored = nodes % 2 == 0;
  const uint32_t seen = tree == 0 ? node : mirrored ? nodes - 1 - node : (node + nodes - 1) % nodes;
  if (seen == 0) {
    return kNoParent;
  }
  const uint32_t up = InOrderParent(seen, nodes - 1);
  const uint32_t back = tree == 0 ? up : mirrored ? nodes - 1 - up : (up + 1) % nodes;
  return static_cast<int32_t>(back);
}

std::vector<uint32_t> NcclPairsByCut(uint32_t nodes) {
  // A pair (a, b) with a < b lies across the cuts a + 1 … b: +1 where they begin, -1 behind.
  std::vector<int64_t> change(size_t{nodes} + 2);
  ForEachPair(NcclTrees(nodes), [&](size_t a, size_t b) {
    ++change[std::min(a, b) + 1];
    --change[std::max(a, b) + 1];
  });
  std::vector<uint32_t> pairs(size_t{nodes} + 1);
  int64_t across = 0;
  for (size_t cut = 0; cut < pairs.size(); ++cut) {
    across += change[cut];
    pairs[cut] = static_cast<uint32_t>(across);
  }
  return pairs;
}

std::vector<ZoneCrossing> CrossingsOf(std::span<const uint32_t> zones) {
  std::vector<ZoneCrossing> crossings;
  std::vector<size_t> place(zones.size());  // by node: which zone of the chain it lies in
  std::map<uint32_t, size_t> place_of;
  uint32_t last = 0;
  for (size_t node = 0; node < zones.size(); ++node) {
    const auto [found, fresh] = place_of.emplace(zones[node], place_of.size());
    if (fresh && node > 0) {
      crossings.push_back({last, zones[node], 0});
    }
    last = fresh ? zones[node] : last;
    place[node] = found->second;
  }
  ForEachPair(NcclTrees(static_cast<uint32_t>(zones.size())), [&](size_t a, size_t b) {
    for (size_t i = std::min(place[a], place[b]); i < std::max(place[a], place[b]); ++i) {
      ++crossings[i].pairs;
    }
  });
  return crossings;
}

std::vector<uint32_t> BestSplit(std::span<const uint32_t> pairs_by_cut,
                                std::span<const uint32_t> most,
                                std::span<const uint32_t> pairs_max) {
  constexpr uint64_t kNever = UINT64_MAX;
  const std::span<const uint32_t> pairs = pairs_by_cut;
  const auto nodes = static_cast<uint32_t>(pairs.size() - 1);
  // From the last zone to the first: the fewest pairs over the boundaries from a zone on that
  // begins at a cut, and where it ends then.
  std::vector<uint64_t> fewest(pairs.size(), kNever);
  fewest[nodes] = 0;
  std::vector<std::vector<uint32_t>> ends(most.size(), std::vector<uint32_t>(pairs.size()));
  for (size_t zone = most.size(); zone-- > 0;) {
    std::vector<uint64_t> from(pairs.size(), kNever);
    std::deque<uint32_t> window;  // ends within reach; none has fewer than those before it
    for (uint32_t begin = nodes; begin-- > 0;) {
      while (!window.empty() && fewest[window.back()] > fewest[begin + 1]) {
        window.pop_back();
      }
      window.push_back(begin + 1);
      while (!window.empty() && window.front() - begin > most[zone]) {
        window.pop_front();
      }
      const bool kept = zone == 0 || pairs_max.empty() || pairs[begin] <= pairs_max[zone - 1];
      if (kept && !window.empty() && fewest[window.front()] != kNever) {
        from[begin] = fewest[window.front()] + pairs[begin];
        ends[zone][begin] = window.front();
      }
    }
    fewest = std::move(from);
  }
  std::vector<uint32_t> parts;
  for (uint32_t begin = 0; fewest[0] != kNever && parts.size() < most.size();) {
    const uint32_t end = ends[parts.size()][begin];
    parts.push_back(end - begin);
    begin = end;
  }
  return parts;
}

}  // namespace tide
