#pragma once
// The port on its first node at which the ranks of a job meet.

#include <map>
#include <set>

#include "scheduler/core/model/state.h"

namespace tide {

class MasterPorts {
 public:
  // Another attempt takes another port: one that is still in use is not met twice. Two jobs that
  // begin on one node in one pass take different ones.
  //   0: the node names no range.
  [[nodiscard]] uint32_t Choose(const ClusterState& state, JobId job, Epoch epoch, NodeId node);

 private:
  std::map<NodeId, std::set<uint32_t>> used_;  // by jobs there, and by what this pass starts
};

}  // namespace tide
