#pragma once
// One node's part in a run: joins the others, then drives its ranks and its two trees.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/fabric/join.h"
#include "agent/fabric/region.h"
#include "agent/fabric/tree_run.h"

namespace tide::allreduce {

struct NodeOptions {
  std::vector<std::string> nodes;  // addresses, by node
  std::vector<uint32_t> zones;     // by node
  std::string token;
  uint32_t warmup = 1;  // iterations before those that are measured
  int64_t join_timeout_ns = 60'000'000'000;
  int64_t timeout_ns = 10'000'000'000;  // silence after which a peer or a rank is given up
  int64_t plant_slow_ns = 0;            // before each send on this node's first edge
  Plant plant;
};

// Wrong elements of one rank after one iteration.
struct RankError {
  uint32_t iteration = 0;
  uint32_t rank = 0;  // in the node
  WrongElements wrong;
};

struct EdgeReport {
  Edge edge;
  LinkUse sent;
  bool crosses_zones = false;
};

struct NodeReport {
  std::vector<int64_t> nanos;     // of each measured iteration
  std::vector<EdgeReport> edges;  // of this node, what it sent
  uint64_t wrong_elements = 0;
  std::vector<RankError> errors;  // the first few
  uint32_t cross_zone_pairs = 0;  // nodes of other zones that this one talks to
  uint32_t plan_cross_zone_pairs = 0;
};

// Runs all iterations of the region's work. Its ranks must be running, or about to: RunRank.
// Whatever happens, the region's `stop` is set at an error, so that the ranks end, too.
//   listener: closed once all have joined.
//   Errors: as of JoinPeers, Link and TreeRun; the message names an edge or a rank.
[[nodiscard]] Result<NodeReport> RunNode(const NodeOptions& options, Region& region, Fd listener);

}  // namespace tide::allreduce
