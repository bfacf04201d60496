#include "scheduler/server/liveness.h"

#include <algorithm>

namespace tide {

std::vector<EventBody> Liveness::Check(const ClusterState& state,
                                       const std::map<NodeId, Instant>& last_heard,
                                       Instant now) const {
  std::vector<EventBody> events;
  for (const Node& node : state.nodes) {
    const auto it = last_heard.find(node.id);
    const Instant heard = it == last_heard.end() ? started_ : std::max(it->second, started_);
    const Duration silence = now - heard;
    if (silence >= policy_.lost_after) {
      if (!node.lost_at.is_set()) {
        events.emplace_back(NodeSilent{node.id});
        events.emplace_back(NodeLost{node.id});
      }
    } else if (silence >= policy_.silent_after) {
      if (TakesWork(node)) {
        events.emplace_back(NodeSilent{node.id});
      }
    } else if (node.state == NodeState::kSuspect && it != last_heard.end()) {
      events.emplace_back(NodeHeard{node.id});
    }
  }
  return events;
}

}  // namespace tide
