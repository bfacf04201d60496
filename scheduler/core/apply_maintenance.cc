// Planned maintenance of nodes: its beginning, its end, and what people change about it.

#include <utility>

#include "common/base/time.h"
#include "scheduler/core/apply_internal.h"

namespace tide::apply {
namespace {

bool IsPlanned(const Node& node) {
  return node.maintenance.begins_at.is_set() && !node.maintenance.begun;
}

// Reports whether a person holds the node, whatever else is wrong with it.
bool IsHeldByOperator(const Node& node) {
  return !IsInService(node) && !node.actor.empty() && node.actor != kTideActor;
}

Status Begin(ClusterState& state, Node& node, Instant at) {
  const Maintenance& plan = node.maintenance;
  TIDE_TRY(HoldNode(state,
                    node,
                    at,
                    {plan.actor,
                     "maintenance until " + FormatRfc3339(plan.ends_at) + ": " + plan.reason,
                     Instant()}));
  node.maintenance.begun = true;
  return {};
}

// Lets go of a node that its maintenance alone has held. What broke it is left to automation, as
// if nobody had held it.
void End(ClusterState& state, Node& node, Instant at) {
  node.maintenance = {};
  MarkNode(state, node.id);
  if (node.state == NodeState::kValidating) {
    node.after_validation = NodeState::kProbation;
    return;
  }
  const bool is_quarantined = node.state == NodeState::kQuarantined;
  const Status proven = CheckProven(state, node);
  if (!is_quarantined && proven && NextNodeState(node.state, NodeEvent::kUndrainRequested)) {
    GiveBack(state, node, at);
    return;
  }
  node.actor = kTideActor;
  node.validation_tries = 0;  // somebody may have mended it
  if (!proven) {
    node.reason = "its maintenance is over; " + proven.error().message;
  }
}

}  // namespace

bool CancelMaintenance(ClusterState& state, Node& node, Instant at) {
  if (node.maintenance.begun &&
      (node.state == NodeState::kQuarantined || node.state == NodeState::kValidating)) {
    End(state, node, at);
    return true;
  }
  if (IsPlanned(node) && !NextNodeState(node.state, NodeEvent::kUndrainRequested)) {
    node.maintenance = {};
    MarkNode(state, node.id);
    return true;
  }
  return false;
}

ApplyResult On(ClusterState& state, Instant at, const MaintenancePlanned& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (event.ends_at <= event.begins_at || event.ends_at <= at) {
    return Fail(ErrorCode::kInvalidArgument, "a maintenance ends after it begins, and after now");
  }
  if (node->state == NodeState::kRemoved) {
    return Fail(ErrorCode::kConflict, node->identity.name + " was removed from the cluster");
  }
  const Maintenance plan{event.begins_at, event.ends_at, event.actor, event.reason, false};
  if (event.begins_at > at) {
    if (node->maintenance.begun) {
      return Fail(ErrorCode::kConflict,
                  node->identity.name + " is under maintenance until " +
                      FormatRfc3339(node->maintenance.ends_at) +
                      ": give it back first (tide undrain " + node->identity.name + ")");
    }
    node->maintenance = plan;
    MarkNode(state, node->id);
    return Applied::kChanged;
  }
  Maintenance former = std::exchange(node->maintenance, plan);
  if (Status begun = Begin(state, *node, at); !begun) {
    node->maintenance = std::move(former);
    return std::unexpected(begun.error());
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const MaintenanceBegun& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (!IsPlanned(*node)) {
    return Applied::kNoOp;
  }
  // A person's hold goes on until a person ends it.
  if (IsHeldByOperator(*node) || !Begin(state, *node, at)) {
    node->maintenance = {};
    MarkNode(state, node->id);
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const MaintenanceEnded& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (!node->maintenance.begun) {
    return Applied::kNoOp;
  }
  End(state, *node, at);
  return Applied::kChanged;
}

}  // namespace tide::apply
