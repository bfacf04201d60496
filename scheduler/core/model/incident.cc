#include "scheduler/core/model/incident.h"

namespace tide {

std::string_view FaultActionName(FaultAction action) {
  switch (action) {
    case FaultAction::kCount:
      return "count";
    case FaultAction::kDrainAfter:
      return "drain_after";
    case FaultAction::kDrainNow:
      return "drain_now";
  }
  return "count";
}

std::string_view HoldReasonName(HoldReason reason) {
  switch (reason) {
    case HoldReason::kNone:
      return "";
    case HoldReason::kBreaker:
      return "breaker";
    case HoldReason::kLeaf:
      return "leaf";
  }
  return "";
}

std::string DescribeIncident(const Incident& incident) {
  const auto named = [&](const std::string& what) {
    return what + " on " + incident.device + " (" + incident.meaning + ")";
  };
  switch (incident.kind) {
    case FaultKind::kXid:
      return named("Xid " + std::to_string(incident.code));
    case FaultKind::kLinkDown:
      return named("link down");
    case FaultKind::kFailedStarts:
    case FaultKind::kLeafLinks:
    case FaultKind::kBreaker:
      break;
  }
  return incident.text;
}

bool Pages(const Incident& incident) {
  return incident.kind == FaultKind::kLeafLinks || incident.kind == FaultKind::kBreaker;
}

}  // namespace tide
