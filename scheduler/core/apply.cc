#include "scheduler/core/apply.h"

#include <algorithm>

#include "scheduler/core/apply_internal.h"
#include "scheduler/core/model/index.h"

namespace tide {

Result<Applied> Apply(ClusterState& state, const Event& event) {
  Result<Applied> applied =
      std::visit([&](const auto& body) { return apply::On(state, event.at, body); }, event.body);
  RefreshIndexes(state);
  return applied;
}

namespace apply {

Result<Job*> FindJob(ClusterState& state, JobId id) {
  const auto it = state.jobs.find(id);
  if (it == state.jobs.end()) {
    return Fail(ErrorCode::kNotFound, FormatJobName(id.value()) + ": no such job");
  }
  return &it->second;
}

Result<Node*> FindNode(ClusterState& state, NodeId id) {
  if (id.value() >= state.nodes.size()) {
    return Fail(ErrorCode::kNotFound, "node " + std::to_string(id.value()) + " has never joined");
  }
  return &state.nodes[id.value()];
}

void MarkJob(ClusterState& state, JobId job) {
  state.changed.jobs.insert(job);
  TouchJob(state, job);
}

void MarkNode(ClusterState& state, NodeId node) {
  state.changed.nodes.insert(node);
  TouchNode(state, node);
}

void KeepClaim(ClusterState& state, JobId job, const Claim& claim) {
  AddClaim(state.uses, job, claim);
  std::ranges::for_each(claim.nodes, [&](NodeId node) { TouchNode(state, node); });
}

void ReleaseClaim(ClusterState& state, JobId job, const Claim& claim) {
  RemoveClaim(state.uses, job, claim);
  std::ranges::for_each(claim.nodes, [&](NodeId node) { TouchNode(state, node); });
}

Result<JobState> CheckJobEvent(const Job& job, JobEvent event) {
  if (const auto next = NextJobState(StateOf(job), event)) {
    return *next;
  }
  return Fail(ErrorCode::kConflict,
              FormatJobName(job.id.value()) + " is " + std::string(JobStateName(StateOf(job))) +
                  ": it cannot be " + std::string(JobEventName(event)));
}

Result<NodeState> CheckNodeEvent(const Node& node, NodeEvent event) {
  if (const auto next = NextNodeState(node.state, event)) {
    return *next;
  }
  std::string way_out;
  if (node.state == NodeState::kQuarantined && event == NodeEvent::kUndrainRequested) {
    way_out = ": it comes back when `tide validate " + node.identity.name + "` passes";
  } else if (node.state == NodeState::kValidating) {
    way_out = ": wait for its validation to end";
  }
  return Fail(ErrorCode::kConflict,
              node.identity.name + " is " + std::string(NodeStateName(node.state)) +
                  ", so this does not apply" + way_out);
}

}  // namespace apply
}  // namespace tide
