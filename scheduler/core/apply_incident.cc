// Events about faults: seen, judged, over.

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/apply_internal.h"
#include "scheduler/core/model/open_incidents.h"
#include "scheduler/core/proof.h"

namespace tide::apply {
namespace {

void MarkIncident(ClusterState& state, const Incident& incident) {
  state.changed.incidents.insert(incident.id);
  IndexIncident(state.open_incidents, incident);
}

Incident* FindRepeated(ClusterState& state, const FaultObserved& fault) {
  for (const IncidentId id : state.open_incidents.On(fault.node)) {
    Incident& incident = state.incidents.at(id);
    if (incident.kind == fault.kind && incident.code == fault.code &&
        incident.device == fault.device) {
      return &incident;
    }
  }
  return nullptr;
}

void Clear(ClusterState& state, Incident& incident, Instant at) {
  incident.cleared_at = at;
  MarkIncident(state, incident);
}

Result<Incident*> FindIncident(ClusterState& state, IncidentId id) {
  const auto found = state.incidents.find(id);
  if (found == state.incidents.end()) {
    return Fail(ErrorCode::kNotFound, "there is no incident " + std::to_string(id.value()));
  }
  return &found->second;
}

// Takes the node out of service as `incident` asks, if it is not out already.
// Returns whether it was in service.
bool Withdraw(ClusterState& state, Node& node, const Incident& incident, Instant at) {
  const bool now = incident.action == FaultAction::kDrainNow;
  const auto next =
      NextNodeState(node.state, now ? NodeEvent::kBroken : NodeEvent::kDrainRequested);
  if (!next || (!now && node.state == NodeState::kQuarantined)) {
    return false;
  }
  const bool served = IsInService(node);
  const std::string reason = DescribeIncident(incident);
  // An operator's hold outlives the fault: a validation will not end it.
  const bool held = !node.actor.empty() && node.actor != kTideActor;
  node.reason = held ? node.reason + "; " + reason : reason;
  if (NeedsRepair(node, incident, at)) {
    node.validation_tries = kValidationTriesMax;
    node.reason += "; it came back from this " + std::to_string(kReturnsMax) +
                   " times within 30 days: repair it" +
                   (incident.repair.empty() ? "" : " (" + incident.repair + ")") +
                   ", then tide validate " + node.identity.name;
  }
  node.actor = held ? node.actor : kTideActor;
  SetNodeState(state, node, *next, at);
  return served;
}

void ActOn(ClusterState& state, Incident& incident, Instant at) {
  Node& node = state.nodes[incident.node.value()];
  const std::string why = DescribeIncident(incident) + " on " + node.identity.name;
  const bool breaks = incident.action == FaultAction::kDrainNow;
  const bool holds = incident.stage == IncidentStage::kHeld;
  if (incident.action != FaultAction::kCount && !holds && Withdraw(state, node, incident, at)) {
    incident.withdrawn_at = at;
    state.open_incidents.NoteWithdrawal(at);
  }
  if (breaks && !holds) {
    FailOccupants(state, node, at, why);
  }
  SettleFailures(state, node, at, breaks ? std::optional(why) : std::nullopt);
  SettleNode(state, node, at);
}

}  // namespace

void RecordFault(ClusterState& state, Instant at, const FaultObserved& fault) {
  if (Incident* repeated = FindRepeated(state, fault)) {
    ++repeated->count;
    repeated->last_seen_at = std::max(repeated->last_seen_at, fault.seen_at);
    MarkIncident(state, *repeated);
    return;
  }
  Node& node = state.nodes[fault.node.value()];
  Incident incident;
  incident.id = IncidentId(state.next_incident_id++);
  incident.node = fault.node;
  incident.kind = fault.kind;
  incident.code = fault.code;
  incident.device = fault.device;
  incident.text = fault.text;
  incident.job = state.uses[fault.node.value()].first().job;
  incident.first_seen_at = fault.seen_at;
  incident.last_seen_at = fault.seen_at;
  incident.recorded_at = at;
  incident.stage = IncidentStage::kSeen;
  ++node.faults;
  MarkNode(state, node.id);
  MarkIncident(state, incident);
  state.incidents.emplace(incident.id, std::move(incident));
}

void ClearIncidents(ClusterState& state, NodeId node, Instant at) {
  const std::vector<IncidentId> open = state.open_incidents.On(node);
  for (const IncidentId id : open) {
    Incident& incident = state.incidents.at(id);
    if (!Pages(incident)) {  // of more than this node
      Clear(state, incident, at);
    }
  }
}

ApplyResult On(ClusterState& state, Instant at, const FaultObserved& event) {
  TIDE_TRY(FindNode(state, event.node));
  if (!event.gone) {
    RecordFault(state, at, event);
    return Applied::kChanged;
  }
  Incident* incident = FindRepeated(state, event);
  // What took its node out of service is proven gone by validators, and by nothing less.
  if (incident == nullptr || incident->withdrawn_at.is_set()) {
    return Applied::kNoOp;
  }
  Clear(state, *incident, at);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const FaultJudged& event) {
  TIDE_ASSIGN(Incident * incident, FindIncident(state, event.incident));
  const IncidentStage stage =
      event.hold == HoldReason::kNone ? IncidentStage::kDecided : IncidentStage::kHeld;
  if (incident->stage == IncidentStage::kDecided || incident->cleared_at.is_set() ||
      (incident->stage == stage && incident->hold == event.hold &&
       incident->part_of == event.part_of)) {
    return Applied::kNoOp;
  }
  incident->action = event.action;
  incident->meaning = event.meaning;
  incident->stage = stage;
  incident->hold = event.hold;
  incident->part_of = event.part_of;
  incident->covers = event.covers;
  incident->repair = event.repair;
  incident->shadow = event.shadow;
  ActOn(state, *incident, at);
  MarkIncident(state, *incident);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant /*at*/, const IncidentVouched& event) {
  TIDE_ASSIGN(Incident * incident, FindIncident(state, event.incident));
  const std::string name = "fault " + std::to_string(event.incident.value());
  if (incident->cleared_at.is_set()) {
    return Fail(ErrorCode::kConflict, name + " is over already");
  }
  if (Pages(*incident)) {
    return Fail(ErrorCode::kConflict,
                name + " is not of one node: it is over when nothing is held because of it");
  }
  incident->vouched_by = event.actor;
  incident->vouched_why = event.reason;
  MarkIncident(state, *incident);
  Node& node = state.nodes[incident->node.value()];
  node.validation_tries = 0;
  MarkNode(state, node.id);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const IncidentCleared& event) {
  TIDE_ASSIGN(Incident * incident, FindIncident(state, event.incident));
  if (incident->cleared_at.is_set()) {
    return Applied::kNoOp;
  }
  Clear(state, *incident, at);
  return Applied::kChanged;
}

}  // namespace tide::apply
