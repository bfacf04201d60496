#include "sim/replay/fault_story.h"

#include <algorithm>

#include "scheduler/core/proof.h"

namespace tide::sim {
namespace {

constexpr Duration kBreakerSpan = Duration::Minutes(10);

bool IsOut(const Node& node) {
  const bool by_tide = node.state == NodeState::kDraining || node.state == NodeState::kDrained ||
                       node.state == NodeState::kQuarantined;
  return (by_tide && node.actor == kTideActor) || node.state == NodeState::kValidating ||
         node.state == NodeState::kLost;
}

// Reports whether the node waits for something that only people bring, and says so: a repair, or
// proof that is missing.
bool IsNamed(const Node& node) {
  const bool rests = node.state == NodeState::kQuarantined || node.state == NodeState::kDrained;
  const bool asks = node.reason.find("repair it") != std::string::npos ||
                    node.reason.find("is not proven gone") != std::string::npos;
  return rests && !ReturnsByItself(node) && asks;
}

}  // namespace

void FaultStory::Observe(const ClusterState& state,
                         const std::set<NodeId>& changed,
                         Instant now,
                         const std::function<bool(NodeId)>& is_broken) {
  for (const NodeId id : changed) {
    const Node& node = state.nodes[id.value()];
    const auto found = out_.find(id);
    if (found == out_.end() && IsOut(node)) {
      ++record_.outages;
      record_.wrong += is_broken(id) ? 0 : 1;
      out_.emplace(id, Outage{IsNamed(node), false});
    } else if (found != out_.end() && IsOut(node)) {
      found->second.named = found->second.named || IsNamed(node);
    } else if (found != out_.end() && TakesWork(node)) {
      const Outage& outage = found->second;
      record_.by_person += outage.person && !outage.named ? 1 : 0;
      record_.named += outage.named ? 1 : 0;
      record_.by_itself += !outage.person && !outage.named ? 1 : 0;
      out_.erase(found);
    }
  }
  const auto& taken = state.open_incidents.withdrawals;
  const auto lately = taken.end() - std::ranges::upper_bound(taken, now - kBreakerSpan);
  record_.most_at_once = std::max(record_.most_at_once, static_cast<uint64_t>(lately));
}

void FaultStory::NotePerson(NodeId node) {
  if (const auto found = out_.find(node); found != out_.end()) {
    found->second.person = true;
  }
}

FaultRecord FaultStory::Finish() const {
  FaultRecord record = record_;
  record.still_out = out_.size();
  return record;
}

}  // namespace tide::sim
