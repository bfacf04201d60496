#include "scheduler/core/policy/master_ports.h"

namespace tide {

uint32_t MasterPorts::Choose(const ClusterState& state, JobId job, Epoch epoch, NodeId node) {
  const NodeIdentity& first = state.nodes[node.value()].identity;
  if (first.port_low == 0 || first.port_high < first.port_low) {
    return 0;
  }
  std::set<uint32_t>& used = used_[node];
  for (const Occupant& occupant : state.uses[node.value()].tasks) {
    used.insert(state.jobs.at(occupant.job).attempts.back().master_port);
  }
  const uint64_t count = first.port_high - first.port_low + 1;
  const uint64_t start = job.value() * 31 + epoch.value();
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t port = first.port_low + static_cast<uint32_t>((start + i) % count);
    if (used.insert(port).second) {
      return port;
    }
  }
  return first.port_low;
}

}  // namespace tide
