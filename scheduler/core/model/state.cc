#include "scheduler/core/model/state.h"

namespace tide {

const Job* ClusterState::FindJob(JobId id) const {
  const auto it = jobs.find(id);
  return it == jobs.end() ? nullptr : &it->second;
}

const Node* ClusterState::FindNode(NodeId id) const {
  return id.value() < nodes.size() ? &nodes[id.value()] : nullptr;
}

const Node* ClusterState::FindNode(const std::string& name) const {
  const auto it = node_by_name.find(name);
  return it == node_by_name.end() ? nullptr : FindNode(it->second);
}

void RebuildDerived(ClusterState& state) {
  state.occupants.assign(state.nodes.size(), Occupant{});
  state.node_by_name.clear();
  state.job_by_key.clear();
  state.waiting.clear();
  state.live.clear();
  for (const Node& node : state.nodes) {
    state.node_by_name[node.identity.name] = node.id;
  }
  for (const auto& [id, job] : state.jobs) {
    if (!job.idempotency_key.empty()) {
      state.job_by_key[job.idempotency_key] = id;
    }
    if (StateOf(job) == JobState::kQueued) {
      state.waiting.insert(id);
    }
    if (const Allocation* allocation = AllocationOf(job)) {
      state.live.insert(id);
      const Attempt& attempt = job.attempts.back();
      for (uint32_t task = 0; task < allocation->nodes.size(); ++task) {
        if (attempt.tasks[task].state != TaskState::kExited) {
          state.occupants[allocation->nodes[task].value()] = {id, task};
        }
      }
    }
  }
}

namespace {

std::optional<std::string> CheckAllocation(const Job& job,
                                           std::vector<Occupant>& expected_occupants) {
  const Allocation* allocation = AllocationOf(job);
  if (allocation == nullptr) {
    return std::nullopt;
  }
  const std::string name = FormatJobName(job.id.value());
  if (allocation->nodes.size() != job.spec.nodes) {
    return "I2: the gang of " + name + " is not whole";
  }
  const Attempt& attempt = job.attempts.back();
  std::set<NodeId> distinct;
  for (uint32_t task = 0; task < allocation->nodes.size(); ++task) {
    const NodeId node = allocation->nodes[task];
    if (!distinct.insert(node).second) {
      return "I2: " + name + " has a node twice";
    }
    if (attempt.tasks[task].state == TaskState::kExited) {
      continue;
    }
    Occupant& occupant = expected_occupants[node.value()];
    if (occupant.job.value() != 0) {
      return "I1: two live tasks on node " + std::to_string(node.value());
    }
    occupant = {job.id, task};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckInvariants(const ClusterState& state) {
  std::vector<Occupant> occupants(state.nodes.size());
  std::set<NodeId> claimed;
  for (const auto& [id, job] : state.jobs) {
    if (auto broken = CheckAllocation(job, occupants)) {
      return broken;
    }
    const bool live = AllocationOf(job) != nullptr;
    const bool attempt_open = !job.attempts.empty() && !job.attempts.back().released_at.is_set();
    if (live != attempt_open || live != state.live.contains(id)) {
      return "I4: attempt and phase of " + FormatJobName(id.value()) + " disagree";
    }
    const auto* queued = std::get_if<Queued>(&job.phase);
    if ((queued != nullptr) != state.waiting.contains(id)) {
      return "the queue does not mirror " + FormatJobName(id.value());
    }
    if (queued != nullptr && queued->claim) {
      for (const NodeId node : queued->claim->nodes) {
        if (!claimed.insert(node).second) {
          return "I3: node " + std::to_string(node.value()) + " is claimed twice";
        }
      }
    }
  }
  if (occupants != state.occupants) {
    return "I1: occupants do not mirror the allocations";
  }
  return std::nullopt;
}

}  // namespace tide
