#pragma once
// This node's part in an all-reduce of several nodes, as a verdict.

#include <string>
#include <vector>

#include "agent/validators/verdict.h"

namespace tide::validators {

struct FabricOptions {
  std::string program;             // tide-allreduce
  uint32_t node = 0;               // this one's index
  std::vector<std::string> names;  // of nodes, for people; fewer than two: nothing to test
  std::string addresses;           // HOST:PORT of each, with commas between
  std::string zones;               // of each, likewise
  std::string token_file;
  std::string bytes = "67108864";
  std::string ranks = "2";
  double floor_gbps = 0;  // GB/s of an edge; slower is no pass
  std::string plant;      // handed on to tide-allreduce
};

// Passes when this node's part of the all-reduce ended with every element right and no edge below
// the floor; the value is its slowest edge. All else is *skipped*, never a fail: one run shows that
// something is wrong in the group, not which of its nodes.
[[nodiscard]] Verdict CheckFabric(const FabricOptions& options);

}  // namespace tide::validators
