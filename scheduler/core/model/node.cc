#include "scheduler/core/model/node.h"

#include "scheduler/core/model/incident.h"

namespace tide {

std::string_view NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kJoining:
      return "joining";
    case NodeState::kValidating:
      return "validating";
    case NodeState::kReady:
      return "ready";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kLost:
      return "lost";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kDrained:
      return "drained";
    case NodeState::kQuarantined:
      return "quarantined";
    case NodeState::kProbation:
      return "probation";
    case NodeState::kRemoved:
      return "removed";
  }
  return "";
}

bool ReturnsByItself(const Node& node) {
  return (node.state == NodeState::kQuarantined || node.state == NodeState::kDrained) &&
         node.actor == kTideActor && !node.needs_repair &&
         node.validation_tries < kValidationTriesMax;
}

bool AwaitsPerson(const Node& node) {
  return (node.state == NodeState::kQuarantined || node.state == NodeState::kDrained) &&
         node.actor == kTideActor && !ReturnsByItself(node);
}

}  // namespace tide
