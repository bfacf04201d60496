#include "scheduler/core/black_hole.h"

#include <algorithm>
#include <set>

namespace tide {
namespace {

bool IsLately(const QuickFailure& failure, Instant at) {
  return at - failure.at <= kQuickFailuresCount;
}

bool FailsElsewhere(const ClusterState& state,
                    const Node& node,
                    const std::set<std::string>& users,
                    Instant at) {
  return std::ranges::any_of(state.nodes, [&](const Node& other) {
    return other.id != node.id &&
           std::ranges::any_of(other.quick_failures, [&](const QuickFailure& each) {
             return IsLately(each, at) && users.contains(each.user);
           });
  });
}

// Reports whether a task of another job does there what it should.
bool RunsWell(const ClusterState& state, const Node& node, const Job& job, Instant at) {
  return std::ranges::any_of(state.uses[node.id.value()].tasks, [&](const Occupant& occupant) {
    const Attempt& attempt = state.jobs.at(occupant.job).attempts.back();
    return occupant.job != job.id && attempt.running_at.is_set() &&
           at - attempt.running_at >= kRanWell;
  });
}

}  // namespace

bool NoteQuickFailure(ClusterState& state, Node& node, const Job& job, Instant at) {
  const Attempt& attempt = job.attempts.back();
  if (attempt.running_at.is_set() && at - attempt.running_at > kQuickFailure) {
    return false;
  }
  std::erase_if(node.quick_failures, [&](const auto& each) { return !IsLately(each, at); });
  if (node.quick_failures.size() == kQuickFailuresKept) {
    node.quick_failures.erase(node.quick_failures.begin());
  }
  node.quick_failures.push_back({job.id, job.user, at});
  std::set<std::string> users;
  for (const QuickFailure& each : node.quick_failures) {
    users.insert(each.user);
  }
  return users.size() > 1 && !RunsWell(state, node, job, at) &&
         !FailsElsewhere(state, node, users, at);
}

void NoteEnd(Node& node, Instant since, Instant at) {
  if (since.is_set() && at - since >= kRanWell) {
    node.quick_failures.clear();
  }
}

}  // namespace tide
