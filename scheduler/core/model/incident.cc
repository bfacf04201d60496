#include "scheduler/core/model/incident.h"

#include <algorithm>

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
  if (!health::IsObserved(incident.kind)) {
    return incident.text;  // the scheduler's own words
  }
  std::string text = incident.kind == FaultKind::kXid ? "Xid"
                     : incident.kind == FaultKind::kSxid
                         ? "SXid"
                         : std::string(FaultKindName(incident.kind));
  std::ranges::replace(text, '_', ' ');
  if (incident.code != 0) {
    text += " " + std::to_string(incident.code);
  }
  if (!incident.device.empty()) {
    text += " on " + incident.device;
  }
  return incident.meaning.empty() ? text : text + " (" + incident.meaning + ")";
}

bool NeedsProof(const Incident& incident) {
  return !incident.cleared_at.is_set() && incident.action != FaultAction::kCount &&
         incident.stage != IncidentStage::kSeen && incident.vouched_by.empty();
}

bool IsCounted(const Incident& incident) {
  return !incident.cleared_at.is_set() && incident.stage == IncidentStage::kDecided &&
         incident.action == FaultAction::kCount && !incident.withdrawn_at.is_set() &&
         !incident.ends && !Pages(incident);
}

bool Pages(const Incident& incident) {
  return incident.kind == FaultKind::kLeafLinks || incident.kind == FaultKind::kBreaker;
}

}  // namespace tide
