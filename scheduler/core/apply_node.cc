// Events about nodes: joining, silence, drains, validations.

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/apply_internal.h"
#include "scheduler/core/commands.h"
#include "scheduler/core/fabric_peers.h"
#include "scheduler/core/idle_tests.h"
#include "scheduler/core/isolation.h"
#include "scheduler/core/proof.h"

namespace tide::apply {
namespace {

constexpr uint32_t kFailedStartsMax = 3;  // in a row

// Tasks the state believes to be on the node but its agent does not hold any more.
void LoseMissingTask(ClusterState& state,
                     const Occupant& occupant,
                     const NodeJoined& event,
                     Instant at) {
  Job& job = state.jobs.at(occupant.job);
  const Attempt& attempt = job.attempts.back();
  if (attempt.tasks[occupant.task].state == TaskState::kAssigned) {
    return;  // the order to start it has not reached the agent yet; it will be sent again
  }
  const bool held =
      std::any_of(event.tasks.begin(), event.tasks.end(), [&](const TaskReported& report) {
        return report.job == occupant.job && report.epoch == attempt.epoch &&
               report.task == occupant.task;
      });
  if (!held) {
    TaskExit exit;
    exit.reason = ExitReason::kLost;
    exit.message = event.identity.name + " does not hold its task any more";
    ExitTask(state, job, occupant.task, at, exit);
    SettleTask(state, job, occupant.task, at);
  }
}

// The node's own series of idle tests goes on where it was.
constexpr const char* kDoesNotAnswer = "its agent does not answer";

void LeaveTest(IdleTest& test) {
  test.id.clear();
  test.running = false;
  test.as_peer = false;
}

// A silence is no pass: what is left of a probation follows it.
NodeEvent HeardAgain(const Node& node) {
  return node.probation_since.is_set() ? NodeEvent::kHeardOnProbation : NodeEvent::kHeard;
}

// Reports whether a fault that is still known took it out of service.
bool WasTakenOut(const ClusterState& state, const Node& node) {
  return std::ranges::any_of(state.open_incidents.On(node.id), [&](IncidentId id) {
    return state.incidents.at(id).withdrawn_at.is_set();
  });
}

// An operator's hold stays the operator's.
void BlameValidation(Node& node, std::string reason) {
  node.reason = std::move(reason);
  if (node.after_validation != NodeState::kDrained) {
    node.actor = kTideActor;
  }
}

// Lets the peers go that the node's validation has.
void ReleasePeers(ClusterState& state, Node& node) {
  for (const NodeId id : node.peers) {
    IdleTest& test = state.nodes[id.value()].idle_test;
    if (test.as_peer && test.id == node.validation_id) {
      LeaveTest(test);
      MarkNode(state, id);
    }
  }
  node.peers.clear();
  MarkNode(state, node.id);
}

// Gives the node those peers that still are idle.
void TakePeers(ClusterState& state, Node& node, Instant at, const std::vector<NodeId>& peers) {
  for (const NodeId id : peers) {
    Node& peer = state.nodes[id.value()];
    if (MayBePeer(state, node, peer)) {
      peer.idle_test.id = node.validation_id;
      peer.idle_test.running = true;
      peer.idle_test.begun_at = at;
      peer.idle_test.as_peer = true;
      node.peers.push_back(id);
      MarkNode(state, id);
    }
  }
}

// Has what lies between nodes tried again, with others: the fault may be a peer's, and where none
// was idle some may be later.
void TryFabricAgain(Node& node, std::string missing) {
  const bool tried = !node.peers.empty();
  const uint32_t most = tried ? kValidationTriesMax : kValidationTriesMax - 1;
  node.validation_tries = std::clamp(node.validation_tries, 1U, most);
  if (!tried) {
    missing += "; no idle node was there to sum with it to the end: it is tried again";
  } else if (node.validation_tries < kValidationTriesMax) {
    missing += "; it is tried again with other nodes";
  }
  BlameValidation(node, std::move(missing));
}

// What did not pass as it is will not pass by being tried again: people have to do something.
void LeaveToPeople(Node& node, std::string reason) {
  BlameValidation(node, std::move(reason));
  node.validation_tries = kValidationTriesMax;
}

}  // namespace

Status CheckProven(const ClusterState& state, const Node& node) {
  for (const IncidentId id : state.open_incidents.On(node.id)) {
    const Incident& incident = state.incidents.at(id);
    // That tasks start there again is seen soon enough.
    const bool is_hardware = !health::IsOfTasks(incident.kind);
    if (is_hardware && NeedsProof(incident) && incident.withdrawn_at.is_set()) {
      return Fail(ErrorCode::kConflict,
                  node.identity.name + " broke: " + DescribeIncident(incident) +
                      "; have it proven gone (tide validate " + node.identity.name +
                      "), or vouch for it (tide faults ack " + std::to_string(id.value()) +
                      " --reason …)");
    }
  }
  return {};
}

namespace {

// A validation never runs beside a job.
Status CheckIdle(const ClusterState& state, const Node& node) {
  const NodeUse& use = state.uses[node.id.value()];
  if (!use.idle()) {
    return Fail(ErrorCode::kConflict,
                node.identity.name + " runs " + FormatJobName(use.first().job.value()) +
                    ": drain it first (tide drain " + node.identity.name + " --reason …)");
  }
  if (!use.claimants.empty()) {
    return Fail(ErrorCode::kConflict,
                node.identity.name + " is kept for " +
                    FormatJobName(use.claimants.front().value()) + ", which is about to start");
  }
  if (!node.leftovers.empty()) {
    return Fail(ErrorCode::kConflict,
                node.identity.name + " still holds a task of " +
                    FormatJobName(node.leftovers.front().job.value()) +
                    ", which is being ended: try again when it is gone");
  }
  return {};
}

// A job that has the node, though its task there may have ended, or is about to.
std::optional<JobId> HolderOf(const ClusterState& state, NodeId node) {
  for (const JobId id : state.live) {
    const std::vector<NodeId>& nodes = AllocationOf(state.jobs.at(id))->nodes;
    if (std::ranges::find(nodes, node) != nodes.end()) {
      return id;
    }
  }
  const std::vector<JobId>& claimants = state.uses[node.value()].claimants;
  return claimants.empty() ? std::nullopt : std::optional(claimants.front());
}

}  // namespace

void BreakOffTest(ClusterState& state, Node& node) {
  if (node.idle_test.as_peer) {
    const auto tested = std::ranges::find_if(state.nodes, [&](const Node& each) {
      return each.state == NodeState::kValidating && each.validation_id == node.idle_test.id &&
             std::ranges::find(each.peers, node.id) != each.peers.end();
    });
    TIDE_CHECK(tested != state.nodes.end(), "a peer helps to test a node");
    ReleasePeers(state, *tested);
  }
  node.idle_test.running = false;
}

void SetNodeState(ClusterState& state, Node& node, NodeState next, Instant at) {
  if (node.state != next) {
    if (node.state == NodeState::kValidating) {
      ReleasePeers(state, node);
      node.validation_id.clear();
    }
    node.state = next;
    node.state_since = at;
    if (next == NodeState::kProbation && !node.probation_since.is_set()) {
      node.probation_since = at;
    } else if (next == NodeState::kReady || next == NodeState::kQuarantined ||
               next == NodeState::kValidating || next == NodeState::kRemoved) {
      node.probation_since = Instant();
    }
    if (next == NodeState::kReady || next == NodeState::kProbation) {
      node.validation_tries = 0;
    } else {
      BreakOffTest(state, node);
    }
    node.jobs_leave_at = Instant();  // of the drain that is over
  }
  MarkNode(state, node.id);
}

namespace {

// For an event that the node's state allows, as the caller has seen.
void MoveNode(ClusterState& state, Node& node, NodeEvent event, Instant at) {
  const auto next = NextNodeState(node.state, event);
  TIDE_CHECK(next.has_value(), "a node moves by the table of its states");
  SetNodeState(state, node, *next, at);
}

}  // namespace

void EndValidation(ClusterState& state, Node& node, Instant at, const std::string& why) {
  BlameValidation(node, why);
  MoveNode(state, node, NodeEvent::kValidationFailed, at);
}

void SettleNode(ClusterState& state, Node& node, Instant at) {
  if (node.state == NodeState::kDraining && state.uses[node.id.value()].idle()) {
    MoveNode(state, node, NodeEvent::kEmptied, at);
  }
}

void CountFailedStart(ClusterState& state, Node& node, Instant at, const std::string& why) {
  ++node.failed_starts;
  MarkNode(state, node.id);
  if (node.failed_starts >= kFailedStartsMax && TakesWork(node)) {
    // By the step's decision, which takes it out, and not by one of many at a time.
    const std::string text = std::to_string(node.failed_starts) + " starts in a row failed: " + why;
    RecordFault(state, at, {node.id, FaultKind::kFailedStarts, 0, "", text, at});
  }
}

void SuspectNode(ClusterState& state, Node& node, Instant at, const std::string& why) {
  if (const auto next = NextNodeState(node.state, NodeEvent::kSilent)) {
    node.reason = why;
    SetNodeState(state, node, *next, at);
  }
}

void FailOccupants(ClusterState& state, const Node& node, Instant at, const Breakage& fault) {
  for (const Occupant& occupant : state.uses[node.id.value()].tasks) {
    Job& job = state.jobs.at(occupant.job);
    if (NextJobState(StateOf(job), JobEvent::kNodeLost)) {
      EnterStopping(state, job, at, StopCause::kFault, fault.why, fault.seen_at);
    }
  }
}

void SettleFailures(ClusterState& state,
                    const Node& node,
                    Instant at,
                    const std::optional<Breakage>& fault) {
  for (const JobId id : state.restless) {  // indexes change after the event
    Job& job = state.jobs.at(id);
    const auto* stopping = std::get_if<Stopping>(&job.phase);
    const std::vector<Task>& tasks = job.attempts.back().tasks;
    const bool failed_here = std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) {
      return task.node == node.id && task.exit.reason == ExitReason::kFailed;
    });
    if (stopping != nullptr && stopping->cause == StopCause::kFailed && failed_here) {
      if (fault) {
        EnterStopping(state, job, at, StopCause::kFault, fault->why, fault->seen_at);
      }
      Settle(state, job, at);
    }
  }
}

ApplyResult On(ClusterState& state, Instant at, const NodeJoined& event) {
  if (event.node.value() > state.nodes.size() || event.identity.name.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "a node joins under its name and the next free id");
  }
  if (event.node.value() < state.nodes.size() &&
      state.nodes[event.node.value()].identity.name != event.identity.name) {
    return Fail(ErrorCode::kInvalidArgument,
                "node " + std::to_string(event.node.value()) + " is " +
                    state.nodes[event.node.value()].identity.name + ", not " + event.identity.name);
  }
  TIDE_TRY(CheckMayJoin(state, event.identity));
  if (event.node.value() == state.nodes.size()) {
    if (state.node_by_name.contains(event.identity.name)) {
      return Fail(ErrorCode::kAlreadyExists, event.identity.name + " has an id already");
    }
    Node& added = state.nodes.emplace_back();
    added.id = event.node;
    added.state_since = at;
    added.tested_at = at;
    state.uses.emplace_back();
    state.node_by_name[event.identity.name] = event.node;
  }
  Node& node = state.nodes[event.node.value()];
  const bool is_other = node.identity.boot_id != event.identity.boot_id ||
                        node.identity.agent_version != event.identity.agent_version;
  if (is_other && node.state != NodeState::kValidating) {
    node.validation_tries = 0;  // somebody may have mended it, or installed what was missing
  }
  state.fabric_stale = state.fabric_stale || node.identity != event.identity;
  state.fabric_stale = state.fabric_stale || node.state == NodeState::kRemoved;
  node.identity = event.identity;
  node.lost_at = Instant();
  MarkNode(state, node.id);
  const bool is_new = node.state == NodeState::kJoining || node.state == NodeState::kRemoved;
  const NodeEvent arrival = is_new ? NodeEvent::kAdmitted : HeardAgain(node);
  if (const auto next = NextNodeState(node.state, arrival)) {
    SetNodeState(state, node, *next, at);
    node.reason.clear();
  }
  const std::vector<Occupant> believed = state.uses[event.node.value()].tasks;
  for (const Occupant& occupant : believed) {
    LoseMissingTask(state, occupant, event, at);
  }
  node.leftovers.clear();
  for (TaskReported report : event.tasks) {
    report.node = event.node;
    // Reports of attempts that are over are no-ops; the replies tell the agent to drop them.
    (void)On(state, at, report);
    const Leftover leftover{report.job, report.epoch, report.task};
    if (report.state == TaskState::kExited || IsBelieved(state, report)) {
      continue;
    }
    if (std::ranges::find(node.leftovers, leftover) == node.leftovers.end()) {
      node.leftovers.push_back(leftover);
    }
    if (!report.stuck.empty()) {
      SuspectNode(state, node, at, DescribeStuck(report));
    }
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const NodeSilent& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  const auto next = NextNodeState(node->state, NodeEvent::kSilent);
  if (!next) {
    return Applied::kNoOp;
  }
  node->reason = "silent";
  SetNodeState(state, *node, *next, at);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const NodeHeard& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (node->state == NodeState::kSuspect && !node->lost_at.is_set() && !node->leftovers.empty()) {
    return Applied::kNoOp;  // it is not suspected of being silent
  }
  const auto next = NextNodeState(node->state, HeardAgain(*node));
  if (node->state == NodeState::kRemoved || (!next && !node->lost_at.is_set())) {
    return Applied::kNoOp;
  }
  node->lost_at = Instant();  // else an old loss would give up what runs there later
  if (next) {
    node->reason.clear();
  }
  SetNodeState(state, *node, next.value_or(node->state), at);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const NodeLost& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (node->lost_at.is_set()) {
    return Applied::kNoOp;
  }
  const Instant silent_since = node->state == NodeState::kSuspect ? node->state_since : at;
  node->lost_at = at;
  MarkNode(state, node->id);
  if (const auto silent = NextNodeState(node->state, NodeEvent::kSilent)) {
    SetNodeState(state, *node, *silent, at);
  }
  if (const auto next = NextNodeState(node->state, NodeEvent::kLost)) {
    if (node->state == NodeState::kValidating) {
      BlameValidation(*node, "lost during its validation");
    } else {
      node->reason = kDoesNotAnswer;
    }
    SetNodeState(state, *node, *next, at);
  }
  FailOccupants(state, *node, at, {node->identity.name + " does not answer", silent_since});
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const NodeIsolated& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  const std::vector<Occupant> given_up = state.uses[node->id.value()].tasks;
  if (!node->lost_at.is_set() || given_up.empty()) {
    return Applied::kNoOp;
  }
  for (const Occupant& occupant : given_up) {
    Job& job = state.jobs.at(occupant.job);
    // When the agent is heard again, it says that the task has ended, or has to be asked.
    node->leftovers.push_back({job.id, job.attempts.back().epoch, occupant.task});
    TaskExit exit;
    exit.reason = ExitReason::kLost;
    exit.message = node->identity.name + " was lost";
    ExitTask(state, job, occupant.task, at, exit);
    SettleTask(state, job, occupant.task, at);
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const ProbationOver& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  const auto next = NextNodeState(node->state, NodeEvent::kProbationOver);
  if (!next) {
    return Applied::kNoOp;
  }
  SetNodeState(state, *node, *next, at);
  return Applied::kChanged;
}

Status HoldNode(ClusterState& state, Node& node, Instant at, const Hold& hold) {
  NodeState next = node.state;
  if (node.state == NodeState::kValidating) {  // whatever comes of it, the operator's hold stands
    node.after_validation = NodeState::kDrained;
  } else if (node.state != NodeState::kDraining && node.state != NodeState::kDrained) {
    TIDE_ASSIGN(next, CheckNodeEvent(node, NodeEvent::kDrainRequested));
  }
  node.reason = hold.reason;  // an operator's hold takes over from the machine's
  node.actor = hold.actor;
  SetNodeState(state, node, next, at);
  node.jobs_leave_at = next == NodeState::kDraining ? hold.jobs_leave_at : Instant();
  SettleNode(state, node, at);
  return {};
}

void GiveBack(ClusterState& state, Node& node, Instant at) {
  node.reason.clear();
  node.actor.clear();
  node.failed_starts = 0;
  node.quick_failures.clear();
  if (node.probation_since.is_set()) {
    node.probation_since = at;  // nothing ran there since
  }
  if (node.lost_at.is_set()) {
    node.reason = kDoesNotAnswer;
    MoveNode(state, node, NodeEvent::kUndrainedWhileLost, at);
  } else {
    MoveNode(state,
             node,
             node.probation_since.is_set() ? NodeEvent::kUndrainedOnProbation
                                           : NodeEvent::kUndrainRequested,
             at);
  }
  ClearIncidents(state, node.id, at);
}

ApplyResult On(ClusterState& state, Instant at, const DrainRequested& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  TIDE_TRY(HoldNode(state, *node, at, {event.actor, event.reason, event.jobs_leave_at}));
  if (node->maintenance.begun) {
    node->maintenance = {};  // from now on it is held for another reason, without an end
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const UndrainRequested& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (CancelMaintenance(state, *node, at)) {
    return Applied::kChanged;
  }
  if (TakesWork(*node)) {
    return Applied::kNoOp;
  }
  TIDE_TRY(CheckNodeEvent(*node, NodeEvent::kUndrainRequested));
  TIDE_TRY(CheckProven(state, *node));
  node->maintenance = {};
  GiveBack(state, *node, at);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const RemoveRequested& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  const std::string& name = node->identity.name;
  if (!node->lost_at.is_set()) {
    return Fail(ErrorCode::kConflict,
                name +
                    " cannot be removed while its agent answers: drain the node, stop its agent "
                    "and wait until `tide nodes` shows that it does not answer");
  }
  if (const auto job = HolderOf(state, node->id)) {
    return Fail(ErrorCode::kConflict,
                name + " cannot be removed: " + FormatJobName(job->value()) +
                    " may still run there; wait until it has left, at the latest when the "
                    "isolation timeout is over");
  }
  TIDE_ASSIGN(const NodeState next, CheckNodeEvent(*node, NodeEvent::kRemoveRequested));
  // If the machine comes back under this name, it comes as a new one.
  Node fresh;
  fresh.id = node->id;
  fresh.identity = node->identity;
  fresh.state = node->state;
  fresh.state_since = node->state_since;
  fresh.lost_at = node->lost_at;
  fresh.reason = event.reason;
  fresh.actor = event.actor;
  fresh.tested_at = at;
  *node = std::move(fresh);
  SetNodeState(state, *node, next, at);
  ClearIncidents(state, node->id, at);
  state.fabric_stale = true;
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const ValidationRequested& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  TIDE_ASSIGN(const NodeState next, CheckNodeEvent(*node, NodeEvent::kValidationRequested));
  TIDE_TRY(CheckIdle(state, *node));
  for (const NodeId peer : event.peers) {
    TIDE_TRY(FindNode(state, peer));
  }
  if (node->lost_at.is_set()) {
    return Fail(
        ErrorCode::kConflict,
        node->identity.name +
            " cannot be validated: its agent does not answer; start tide-agent there first");
  }
  switch (node->state) {
    case NodeState::kProbation:
      node->after_validation = NodeState::kProbation;
      break;
    case NodeState::kQuarantined:
    case NodeState::kDrained:
      node->after_validation =
          node->actor == kTideActor ? NodeState::kProbation : NodeState::kDrained;
      break;
    case NodeState::kJoining:
    case NodeState::kValidating:
    case NodeState::kReady:
    case NodeState::kSuspect:
    case NodeState::kLost:
    case NodeState::kDraining:
    case NodeState::kRemoved:
      node->after_validation = NodeState::kReady;
      break;
  }
  node->validation_id = event.request_id;
  node->verdicts.clear();
  if (event.actor == kTideActor) {
    ++node->validation_tries;
  } else {
    node->returns.clear();  // a person has looked at it
    node->needs_repair = false;
  }
  SetNodeState(state, *node, next, at);
  TakePeers(state, *node, at, event.peers);
  if (event.actor == kTideActor) {
    OrderRepairs(state, node->id, at);  // a person has their own means
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const IdleTestBegun& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  IdleTest& test = node->idle_test;
  const bool runs = test.running && at - test.begun_at < kIdleTestMax;
  if (runs || event.request_id.empty() || !MayTestIdle(state, *node)) {
    return Applied::kNoOp;
  }
  if (test.as_peer) {
    BreakOffTest(state, *node);  // it was not heard of, nor what it is part of
  }
  if (!test.running) {  // else it is the one that was not heard of: its agent may still be at it
    test.id = event.request_id;
  }
  test.running = true;
  test.begun_at = at;
  MarkNode(state, node->id);
  return Applied::kChanged;
}

namespace {

// Takes what an idle test says, also one that a job broke off: what it found until then counts.
ApplyResult TakeIdleTest(ClusterState& state,
                         Node& node,
                         Instant at,
                         const std::vector<Verdict>& verdicts) {
  IdleTest& test = node.idle_test;
  if (test.as_peer) {  // what it found is the other node's: one run does not say whose fault it is
    LeaveTest(test);
    MarkNode(state, node.id);
    return Applied::kChanged;
  }
  for (const Verdict& verdict : verdicts) {
    std::erase_if(node.verdicts,
                  [&](const Verdict& each) { return each.validator == verdict.validator; });
    node.verdicts.push_back(verdict);
    if (std::ranges::find(test.done, verdict.validator) == test.done.end()) {
      test.done.push_back(verdict.validator);
    }
    if (verdict.verdict == "fail") {
      RecordFault(state,
                  at,
                  {node.id,
                   FaultKind::kFailedTest,
                   0,
                   verdict.validator,
                   "idle test failed: " + verdict.validator + ": " + verdict.evidence,
                   at});
    }
  }
  if (test.running) {
    std::erase_if(node.verdicts, [&](const Verdict& each) {
      return std::ranges::find(test.done, each.validator) == test.done.end();
    });
    test.running = false;
    test.done.clear();
    node.tested_at = at;
  }
  test.id.clear();  // agents repeat their last report when they connect
  MarkNode(state, node.id);
  return Applied::kChanged;
}

}  // namespace

ApplyResult On(ClusterState& state, Instant at, const ValidationReported& event) {
  TIDE_ASSIGN(Node * node, FindNode(state, event.node));
  if (!event.request_id.empty() && event.request_id == node->idle_test.id) {
    return TakeIdleTest(state, *node, at, event.verdicts);
  }
  if (node->state != NodeState::kValidating || node->validation_id != event.request_id) {
    return Applied::kNoOp;
  }
  const auto failed = std::find_if(event.verdicts.begin(),
                                   event.verdicts.end(),
                                   [](const Verdict& each) { return each.verdict == "fail"; });
  const bool any_passed =
      std::any_of(event.verdicts.begin(), event.verdicts.end(), [](const Verdict& each) {
        return each.verdict == "pass" || each.verdict == "warn";
      });
  node->verdicts = event.verdicts;
  TakeBackRepairs(state, node->id, node->state_since, event.verdicts);
  if (BrokeSince(state, node->id, node->state_since)) {
    EndValidation(state, *node, at, "it broke again in its validation; see tide faults");
    return Applied::kChanged;
  }
  if (failed != event.verdicts.end() || !any_passed) {
    BlameValidation(*node,
                    failed != event.verdicts.end()
                        ? "validator " + failed->validator + " failed: " + failed->evidence
                        : "no validator could run");
    node->validation_tries = std::max(node->validation_tries, 1U);
    if (node->validation_tries >= kValidationTriesMax) {
      node->reason += "; " + std::to_string(node->validation_tries) + " validations: repair it";
    }
    MoveNode(state, *node, NodeEvent::kValidationFailed, at);
    return Applied::kChanged;
  }
  std::string missing = MissingProof(state, *node, event.verdicts);
  if (!missing.empty() && node->after_validation != NodeState::kDrained) {
    if (LacksFabricAlone(state, *node, event.verdicts)) {
      TryFabricAgain(*node, std::move(missing));
    } else {
      LeaveToPeople(*node, std::move(missing));
    }
    MoveNode(state, *node, NodeEvent::kValidationFailed, at);
    return Applied::kChanged;
  }
  node->failed_starts = 0;
  node->quick_failures.clear();
  NodeEvent passed = NodeEvent::kValidationPassed;
  if (node->after_validation == NodeState::kProbation) {
    passed = NodeEvent::kValidationPassedAfterFault;
  } else if (node->after_validation == NodeState::kDrained) {
    passed = NodeEvent::kValidationPassedWhileHeld;
  }
  MoveNode(state, *node, passed, at);
  if (TakesWork(*node)) {
    node->reason.clear();
    node->actor.clear();
  }
  if (missing.empty()) {  // also of a node that an operator goes on to hold
    if (node->state == NodeState::kDrained && WasTakenOut(state, *node)) {
      node->probation_since = at;
    }
    NoteReturns(state, *node, at);
    ClearIncidents(state, node->id, at);
  }
  return Applied::kChanged;
}

}  // namespace tide::apply
