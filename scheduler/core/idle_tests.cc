#include "scheduler/core/idle_tests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "scheduler/core/proof.h"

namespace tide {

bool MayTestIdle(const ClusterState& state, const Node& node) {
  return TakesWork(node) && IsFreeForValidation(state, node);
}

std::vector<EventBody> IdleTestWatch::Check(const ClusterState& state,
                                            const Policy& policy,
                                            Instant now) {
  const std::set<NodeId> idle_before = std::exchange(idle_, {});
  if (policy.faults.test_every.nanos() == 0) {
    return {};
  }
  size_t running = 0;
  std::vector<std::pair<Instant, NodeId>> due;
  for (const Node& node : state.nodes) {
    if (node.idle_test.running && now - node.idle_test.begun_at < kIdleTestMax) {
      ++running;
    } else if (node.tested_at + policy.faults.test_every <= now && MayTestIdle(state, node)) {
      idle_.insert(node.id);
      if (idle_before.contains(node.id)) {
        due.emplace_back(node.tested_at, node.id);
      }
    }
  }
  const size_t most = std::max<size_t>(1, state.nodes.size() / 10);
  const size_t more = std::min(due.size(), most - std::min(most, running));
  std::ranges::partial_sort(due, due.begin() + static_cast<std::ptrdiff_t>(more));
  due.resize(more);
  std::vector<EventBody> events;
  for (const auto& [tested_at, node] : due) {
    const std::string id =
        "idle-" + std::to_string(node.value()) + "-" + std::to_string(now.unix_nanos());
    events.emplace_back(IdleTestBegun{node, id});
  }
  return events;
}

}  // namespace tide
