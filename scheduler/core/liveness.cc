#include "scheduler/core/liveness.h"

#include <algorithm>

namespace tide {

Liveness::Liveness(LivenessPolicy policy, int64_t started_ns)
    : policy_(policy), counts_from_ns_(started_ns), last_check_ns_(started_ns) {
  policy_.silent_after = std::max(policy_.silent_after, policy_.heartbeat * 3);
  policy_.lost_after = std::max(policy_.lost_after, policy_.heartbeat * 10);
}

std::vector<EventBody> Liveness::Check(const ClusterState& state,
                                       const std::map<NodeId, int64_t>& last_heard_ns,
                                       int64_t now_ns) {
  // As of the last look: an answer that was given while we were away is no news by now, but tasks
  // go on from it, so the node is not to be given up for the silence before.
  const int64_t looked_ns = last_check_ns_;
  if (now_ns - last_check_ns_ >= policy_.silent_after.nanos()) {
    counts_from_ns_ = now_ns;  // we were away: what was sent meanwhile has not been read yet
  }
  last_check_ns_ = now_ns;
  std::vector<EventBody> events;
  for (const Node& node : state.nodes) {
    if (node.state == NodeState::kRemoved) {
      continue;
    }
    const auto it = last_heard_ns.find(node.id);
    const bool heard_since =
        it != last_heard_ns.end() && looked_ns - it->second < policy_.silent_after.nanos();
    const int64_t heard_ns =
        it == last_heard_ns.end() ? counts_from_ns_ : std::max(it->second, counts_from_ns_);
    const Duration silence = Duration::Nanos(now_ns - heard_ns);
    if (silence >= policy_.lost_after) {
      if (!node.lost_at.is_set()) {
        events.emplace_back(NodeSilent{node.id});
        events.emplace_back(NodeLost{node.id});
      }
    } else if (silence >= policy_.silent_after) {
      if (TakesWork(node)) {
        events.emplace_back(NodeSilent{node.id});
      }
    } else if (heard_since && ((node.state == NodeState::kSuspect && node.leftovers.empty()) ||
                               node.lost_at.is_set())) {
      // Also of a lost node: its stream may have outlived the silence, and then it joins no more.
      events.emplace_back(NodeHeard{node.id});
    }
  }
  return events;
}

}  // namespace tide
