#pragma once
// Which nodes of a job talk to which, when its collectives follow the fabric: the communication
// plan (scheduling.md section 4), and what crosses between zones with and without it.
//
// Nodes are counted in rank order, from 0. A plan is two trees over all nodes; an all-reduce sends
// half of its bytes up and down each. Pure, exact integers, no order but that of the arguments.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tide {

inline constexpr int32_t kNoParent = -1;

// parents[t][i]: the node above node i in tree t; kNoParent for the root.
struct CommPlan {
  std::array<std::vector<int32_t>, 2> parents;
  bool operator==(const CommPlan&) const = default;
};

// The plan of a job. zones[i]: the zone of node i; the numbers only tell zones apart.
//
// One zone of m nodes: a double binary tree (Sanders, Speck and Träff, Two-tree algorithms for full
// bandwidth broadcast, reduction and scan, 2009): each node has children in at most one of the
// trees, and no more than two; both trees have height floor(log2 m).
//
// Several zones: the first node of each is its gateway. It stands above the double binary tree of
// the others, and the gateways form a chain in the order of the zones' first nodes. Both trees use
// the same chain, so k zones are joined by k - 1 pairs of nodes, one per boundary, for every size
// and every split, also where a zone's nodes do not lie side by side. One pair for both trees puts
// the gateway above others in both; for that it has a single child of its own zone in each: with
// the links between zones it carries what others do (at both ends of the chain; half as much
// again between). Height of zone i of m nodes, from the root: i + 1 + floor(log2(m - 1)).
//
//   Cost: O(n log zones).
[[nodiscard]] CommPlan MakeCommPlan(std::span<const uint32_t> zones);

// Pairs of nodes in different zones that talk to each other, each counted once.
struct CrossZonePairs {
  uint32_t plan = 0;       // zones - 1
  uint32_t ring = 0;       // a ring closed in rank order
  uint32_t nccl_tree = 0;  // both trees as NCCL builds them
  bool operator==(const CrossZonePairs&) const = default;
};
//   Cost: O(n log zones).
[[nodiscard]] CrossZonePairs CountCrossZonePairs(std::span<const uint32_t> zones);

// The node above `node` in NCCL's tree 0 or 1 over `nodes` nodes; kNoParent for the root.
// Tree 0 is in order: clear the lowest set bit of the index and set the next one; where that is no
// node, only clear it. Its root is node 0. Tree 1 is tree 0 mirrored for an even number of nodes,
// shifted by one for an odd number. Source: ncclGetDtree, src/graph/trees.cc of NCCL.
//   Needs node < nodes.  Cost: O(1).
[[nodiscard]] int32_t NcclParent(uint32_t nodes, uint32_t tree, uint32_t node);

// [c]: pairs of NCCL's trees between the first c of `nodes` nodes and the rest; nodes + 1 entries.
//   Cost: O(nodes).
[[nodiscard]] std::vector<uint32_t> NcclPairsByCut(uint32_t nodes);

// Where a job goes from one zone to the next: zones in the order of their first nodes.
struct ZoneCrossing {
  uint32_t from = 0;   // zone
  uint32_t to = 0;     // zone
  uint32_t pairs = 0;  // pairs of NCCL's trees between the zones up to `from` and those from `to`
  bool operator==(const ZoneCrossing&) const = default;
};
// Returns the crossings of a job. zones[i]: the zone of node i.
//   Cost: O(n log zones).
[[nodiscard]] std::vector<ZoneCrossing> CrossingsOf(std::span<const uint32_t> zones);

// Returns how many nodes of a job go to each of several zones, one after the other in rank order,
// of which zone i may take most[i]: the cuts with the fewest pairs over all boundaries; of equal
// ones those with most nodes in the first zone, then in the second … Each zone gets a node.
//   pairs_by_cut: NcclPairsByCut of the job's nodes.
//   pairs_max[i]: pairs that may lie across the boundary behind zone i; empty = any number.
//   Returns nothing where the zones together take fewer, there are fewer nodes than zones, or no
//   cut keeps pairs_max.
//   Cost: O(nodes × zones).
[[nodiscard]] std::vector<uint32_t> BestSplit(std::span<const uint32_t> pairs_by_cut,
                                              std::span<const uint32_t> most,
                                              std::span<const uint32_t> pairs_max = {});

}  // namespace tide
