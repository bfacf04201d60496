#include "scheduler/core/isolation.h"

#include <algorithm>

#include "common/spec/job_spec.h"
#include "scheduler/core/lease.h"

namespace tide {
namespace {

constexpr Duration kIsolationMost =
    Duration::Minutes(30 * 24 * 60);  // that a scheduler may ask for

// silent: from when on nobody has answered the node.
Instant EndOf(const ClusterState& state, const Occupant& on, Instant silent, const Policy& policy) {
  const std::vector<Task>& tasks = state.jobs.at(on.job).attempts.back().tasks;
  const NodeIdentity& agent = state.nodes[tasks[on.task].node.value()].identity;
  const Instant isolated = silent + std::max(policy.isolation_timeout, agent.isolation_timeout);
  if (agent.witness_timeout == Duration() || tasks.size() < 2) {
    return isolated;
  }
  Instant witnessed = silent;
  for (uint32_t other = 0; other < tasks.size(); ++other) {
    if (other == on.task) {
      continue;
    }
    if (tasks[other].state != TaskState::kExited) {
      return isolated;  // it may be this one's witness, where nobody else reaches either
    }
    witnessed = std::max(witnessed, tasks[other].exited_at);
  }
  return std::min(isolated, witnessed + agent.witness_timeout);
}

}  // namespace

Duration WitnessTimeoutOf(std::optional<int64_t> said_ms, const Policy& policy) {
  const Duration told = policy.witness_timeout;
  const bool bounded = said_ms && *said_ms >= 0 && *said_ms < policy.isolation_timeout.millis();
  if (!bounded || told == Duration() || told >= policy.isolation_timeout) {
    return Duration();
  }
  return std::max(told, Duration::Millis(*said_ms));
}

Duration IsolationTimeoutOf(std::optional<int64_t> said_ms, const Policy& policy) {
  const int64_t said = std::clamp<int64_t>(said_ms.value_or(0), 0, kIsolationMost.millis());
  return std::max(policy.isolation_timeout, Duration::Millis(said));
}

bool MayRunBeside(const NodeIdentity& last, const NodeIdentity& comer) {
  const auto differ = [](const std::string& a, const std::string& b) {
    return !a.empty() && !b.empty() && a != b;
  };
  const bool same_machine = !last.machine_id.empty() && last.machine_id == comer.machine_id;
  if (same_machine && differ(last.boot_id, comer.boot_id)) {
    return false;
  }
  return differ(last.state_id, comer.state_id) || differ(last.machine_id, comer.machine_id);
}

Status CheckMayJoin(const ClusterState& state, const NodeIdentity& comer) {
  const Node* node = state.FindNode(comer.name);
  if (node == nullptr || state.uses[node->id.value()].tasks.empty() ||
      !MayRunBeside(node->identity, comer)) {
    return {};
  }
  return Fail(ErrorCode::kConflict,
              comer.name + ": an agent of that name with another state folder, at " +
                  node->identity.endpoint + ", has " +
                  FormatJobName(state.uses[node->id.value()].tasks.front().job.value()) +
                  " and may still run it: this one may join when that is known to be over, the "
                  "isolation timeout after the other was last heard; if the folder was lost, wait, "
                  "else start it with the former --state, or another --name");
}

Instant IsolatedAt(const ClusterState& state, const Node& node, const Policy& policy) {
  // A leader waits anew from when the one before it, if that hangs, stops answering for the node.
  // What was noted before it led is of another clock.
  const Instant silent = std::max(node.lost_at, state.led_since + kLeaseDuration);
  Instant end = silent;
  for (const Occupant& occupant : state.uses[node.id.value()].tasks) {
    end = std::max(end, EndOf(state, occupant, silent, policy));
  }
  return end + policy.isolation_margin;
}

}  // namespace tide
