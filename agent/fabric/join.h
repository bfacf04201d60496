#pragma once
// How the nodes of a run find each other: everyone listens on its own address, each node connects
// to the ones above it, and both prove that they know the run's token. Strangers are closed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/fabric/halt.h"
#include "agent/fabric/link.h"
#include "common/base/file.h"
#include "common/base/result.h"
#include "common/fabric/comm_plan.h"

namespace tide::allreduce {

// "10.0.0.7:5000", "[fd00::1]:5000", "node7:5000".
//   Errors: kInvalidArgument for what is no address, kSystem.
[[nodiscard]] Result<Fd> Listen(const std::string& address);
// Returns the port that a listener got.
[[nodiscard]] Result<uint16_t> PortOf(const Fd& listener);

struct JoinOptions {
  uint32_t self = 0;
  std::vector<std::string> nodes;  // addresses
  std::string token;
  std::string arguments;  // what must be equal on all nodes, as text
  int64_t join_timeout_ns = 60'000'000'000;
  int64_t timeout_ns = 10'000'000'000;  // of the links
};

// Returns a link per edge of the plan that ends in this node: parents first, then children by node;
// tree by tree.
//   Errors: kUnauthenticated, kDeadlineExceeded, kConflict for a node with other arguments; the
//   message names the edge.
[[nodiscard]] Result<std::vector<std::unique_ptr<Link>>> JoinPeers(const JoinOptions& options,
                                                                   const CommPlan& plan,
                                                                   const Fd& listener,
                                                                   Halt& halt);

}  // namespace tide::allreduce
