// Events about faults: seen, judged, over.

#include <algorithm>
#include <functional>
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

// How long a fault that was over may stay away and still be the same one.
constexpr Duration kReopenWithin = Duration::Minutes(60);
static_assert(kReopenWithin < kIncidentsKept);
constexpr size_t kReopenLookedAt = 256;  // incidents, the newest first
// A fault that is only counted is judged anew when it comes back after so long.
constexpr Duration kJudgedAnewAfter = Duration::Seconds(60);

bool IsOf(const Incident& incident, const FaultObserved& fault) {
  return incident.node == fault.node && incident.kind == fault.kind &&
         incident.code == fault.code && incident.device == fault.device;
}

Incident* FindRepeated(ClusterState& state, const FaultObserved& fault) {
  for (const IncidentId id : state.open_incidents.On(fault.node)) {
    if (Incident& incident = state.incidents.at(id); IsOf(incident, fault)) {
      return &incident;
    }
  }
  return nullptr;
}

// Returns the incident of a condition that comes and goes, and went a moment ago.
Incident* FindFlapping(ClusterState& state, Instant at, const FaultObserved& fault) {
  size_t looked_at = 0;
  for (auto it = state.incidents.rbegin(); it != state.incidents.rend(); ++it) {
    Incident& incident = it->second;
    if (++looked_at > kReopenLookedAt) {
      return nullptr;
    }
    if (IsOf(incident, fault) && incident.gone_at.is_set() && !incident.withdrawn_at.is_set() &&
        at - incident.cleared_at <= kReopenWithin) {
      return &incident;
    }
  }
  return nullptr;
}

// Notes the job that has the node to itself; where several share it, nobody knows whose GPU it is.
// One that came there after the fault was seen has nothing to do with it.
// Returns whether it met the fault for the first time.
bool NoteHurtJob(const ClusterState& state, Incident& incident, Instant at) {
  const NodeUse& use = state.uses[incident.node.value()];
  const JobId job = use.first().job;
  const bool alone =
      std::ranges::all_of(use.tasks, [&](const Occupant& occupant) { return occupant.job == job; });
  if (use.tasks.empty() || !alone || state.jobs.at(job).attempts.back().placed_at > at) {
    return false;
  }
  const bool known =
      std::erase_if(incident.hurt, [&](const auto& each) { return each.job == job; }) > 0;
  if (incident.hurt.size() == kHurtJobsKept) {
    incident.hurt.erase(incident.hurt.begin());
  }
  incident.hurt.push_back({job, state.jobs.at(job).user, at});
  return !known;
}

// Takes another observation of an incident that is there already.
void Repeat(ClusterState& state, Incident& incident, Instant at, const FaultObserved& fault) {
  const bool was_over = incident.cleared_at.is_set();
  if (was_over) {
    state.open_incidents.LeaveOver(incident);
  }
  const bool hurts_another = NoteHurtJob(state, incident, fault.seen_at);
  const bool after_long = fault.seen_at - incident.last_seen_at >= kJudgedAnewAfter;
  ++incident.count;
  incident.last_seen_at = std::max(incident.last_seen_at, fault.seen_at);
  incident.cleared_at = Instant();
  incident.gone_at = Instant();
  incident.ends = fault.ends;
  incident.vouched_by.clear();  // that was about the time before
  incident.vouched_why.clear();
  if (was_over) {
    incident.repair_at = Instant();  // it may help this time, too
  }
  // Some faults say in words how bad they are; and the rules may be others by now.
  const bool says_more = incident.text != fault.text;
  if (incident.stage == IncidentStage::kDecided && !incident.withdrawn_at.is_set() &&
      (says_more || after_long || was_over || hurts_another)) {
    incident.text = fault.text;
    incident.stage = IncidentStage::kSeen;
  }
  MarkIncident(state, incident);
  Node& node = state.nodes[incident.node.value()];
  if (node.state == NodeState::kValidating && incident.withdrawn_at.is_set()) {
    EndValidation(state, node, at, DescribeIncident(incident) + " came again in its validation");
  }
}

void Clear(ClusterState& state, Incident& incident, Instant at) {
  const bool was_seen = incident.stage == IncidentStage::kSeen;
  incident.cleared_at = at;
  incident.stage = IncidentStage::kDecided;
  MarkIncident(state, incident);
  if (was_seen) {
    // Failures that waited for its judgement get none.
    SettleFailures(state, state.nodes[incident.node.value()], at, std::nullopt);
  }
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
  constexpr size_t kFormerMax = 300;
  std::string reason = DescribeIncident(incident);
  if (!served && !node.reason.empty() && node.actor == kTideActor) {
    reason += "; before that: " + node.reason.substr(0, kFormerMax);
  }
  // An operator's hold outlives the fault: a validation will not end it.
  const bool held = !node.actor.empty() && node.actor != kTideActor;
  node.reason = held ? node.reason + "; " + reason : reason;
  if (NeedsRepair(node, incident, at)) {
    node.needs_repair = true;
    node.reason += "; it came back from this " + std::to_string(kReturnsMax) +
                   " times within 30 days: repair it" +
                   (incident.repair.empty() ? "" : " (" + incident.repair + ")") +
                   ", then tide validate " + node.identity.name;
  }
  node.actor = held ? node.actor : kTideActor;
  SetNodeState(state, node, *next, at);
  return served;
}

// Returns the fault that this one came of, if all that this one asks was done because of it.
const Incident* HandledCause(const ClusterState& state, const Incident& incident) {
  const auto cause = state.incidents.find(incident.part_of);
  const bool handled = incident.stage == IncidentStage::kDecided &&
                       cause != state.incidents.end() && NeedsProof(cause->second) &&
                       cause->second.stage == IncidentStage::kDecided &&
                       cause->second.action >= incident.action;
  return handled ? &cause->second : nullptr;
}

void ActOn(ClusterState& state, Incident& incident, Instant at) {
  Node& node = state.nodes[incident.node.value()];
  const Incident* cause = HandledCause(state, incident);
  const std::string why =
      DescribeIncident(cause != nullptr ? *cause : incident) + " on " + node.identity.name;
  const bool breaks = incident.action == FaultAction::kDrainNow;
  const bool holds = incident.stage == IncidentStage::kHeld;
  if (incident.action != FaultAction::kCount && !holds && cause == nullptr &&
      Withdraw(state, node, incident, at)) {
    incident.withdrawn_at = at;
    state.open_incidents.NoteWithdrawal(at);
  }
  if (breaks && !holds) {
    FailOccupants(state, node, at, {why, incident.last_seen_at});
  }
  // Jobs that fail on a black hole fail because of it, though others there may go on.
  const bool explains =
      breaks || (incident.kind == FaultKind::kBlackHole && incident.action != FaultAction::kCount);
  SettleFailures(state,
                 node,
                 at,
                 explains ? std::optional(Breakage{why, incident.last_seen_at}) : std::nullopt);
  SettleNode(state, node, at);
}

}  // namespace

void RecordFault(ClusterState& state, Instant at, const FaultObserved& fault) {
  Incident* known = FindRepeated(state, fault);
  if (known == nullptr && fault.ends) {
    known = FindFlapping(state, at, fault);
  }
  if (known != nullptr) {
    Repeat(state, *known, at, fault);
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
  incident.ends = fault.ends;
  (void)NoteHurtJob(state, incident, fault.seen_at);
  ++node.faults;
  MarkNode(state, node.id);
  MarkIncident(state, incident);
  state.incidents.emplace(incident.id, std::move(incident));
}

void OrderRepairs(ClusterState& state, NodeId node, Instant at) {
  for (const IncidentId id : RepairsWanted(state, node)) {
    Incident& incident = state.incidents.at(id);
    incident.repair_at = at;
    MarkIncident(state, incident);
  }
}

void TakeBackRepairs(ClusterState& state,
                     NodeId node,
                     Instant at,
                     const std::vector<Verdict>& verdicts) {
  const std::vector<IncidentId> open = state.open_incidents.On(node);
  for (const IncidentId id : open) {
    Incident& incident = state.incidents.at(id);
    const auto verdict =
        std::ranges::find(verdicts, "repair-" + incident.repair, &Verdict::validator);
    const bool begun = verdict != verdicts.end() && verdict->verdict != "skipped";
    if (incident.repair_at == at && !begun) {
      incident.repair_at = Instant();
      MarkIncident(state, incident);
    }
  }
}

void ClearIncidents(ClusterState& state, NodeId node, Instant at) {
  const std::vector<IncidentId> open = state.open_incidents.On(node);
  for (const IncidentId id : open) {
    Incident& incident = state.incidents.at(id);
    // One that nobody has judged yet came too late to be proven gone.
    if (!Pages(incident) && incident.stage != IncidentStage::kSeen) {
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
  if (incident == nullptr || incident->gone_at.is_set()) {
    return Applied::kNoOp;
  }
  incident->gone_at = at;
  // What took its node out of service is proven gone by validators as well.
  if (incident->withdrawn_at.is_set()) {
    Node& node = state.nodes[event.node.value()];
    node.validation_tries = 0;
    MarkNode(state, node.id);
    MarkIncident(state, *incident);
  } else {
    Clear(state, *incident, at);
  }
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
  incident->stage = stage;
  incident->hold = event.hold;
  incident->part_of = event.part_of;
  if (event.action >= incident->action) {  // a milder word later takes nothing back
    incident->action = event.action;
    incident->meaning = event.meaning;
    incident->covers = event.covers;
    incident->repair = event.repair;
    incident->shadow = event.shadow;
  }
  ActOn(state, *incident, at);
  MarkIncident(state, *incident);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const IncidentVouched& event) {
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
  if (!incident->withdrawn_at.is_set()) {
    Clear(state, *incident, at);  // nothing else waits for it
    return Applied::kChanged;
  }
  Node& node = state.nodes[incident->node.value()];
  node.validation_tries = 0;
  node.needs_repair = false;
  MarkNode(state, node.id);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant /*at*/, const IncidentExplained& event) {
  TIDE_ASSIGN(Incident * incident, FindIncident(state, event.incident));
  TIDE_TRY(FindIncident(state, event.part_of));
  if (incident->stage != IncidentStage::kDecided || incident->cleared_at.is_set() ||
      incident->part_of == event.part_of || event.part_of == event.incident) {
    return Applied::kNoOp;
  }
  incident->part_of = event.part_of;
  MarkIncident(state, *incident);
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

ApplyResult On(ClusterState& state, Instant /*at*/, const IncidentsForgotten& event) {
  if (std::ranges::adjacent_find(event.incidents, std::ranges::greater_equal()) !=
      event.incidents.end()) {
    return Fail(ErrorCode::kConflict, "incidents to forget come in order, each once");
  }
  for (const IncidentId id : event.incidents) {
    TIDE_ASSIGN(const Incident* incident, FindIncident(state, id));
    if (!incident->cleared_at.is_set()) {
      return Fail(ErrorCode::kConflict, "fault " + std::to_string(id.value()) + " is not over");
    }
  }
  OpenIncidents& index = state.open_incidents;
  for (const IncidentId id : event.incidents) {
    const Incident& incident = state.incidents.at(id);
    index.LeaveOver(incident);
    if (incident.withdrawn_at.is_set()) {
      index.withdrawals.erase(std::ranges::lower_bound(index.withdrawals, incident.withdrawn_at));
    }
    state.changed.incidents.insert(id);
    state.incidents.erase(id);
  }
  return event.incidents.empty() ? Applied::kNoOp : Applied::kChanged;
}

}  // namespace tide::apply
