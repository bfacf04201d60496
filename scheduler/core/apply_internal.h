#pragma once
// Shared by the files that implement Apply. Each On… handles one event: it checks first and
// mutates only when nothing can fail any more.

#include <algorithm>

#include "scheduler/core/apply.h"
#include "scheduler/core/fsm/job_fsm.h"
#include "scheduler/core/fsm/node_fsm.h"

namespace tide::apply {

using ApplyResult = Result<Applied>;

ApplyResult On(ClusterState& state, Instant at, const JobSubmitted& event);
ApplyResult On(ClusterState& state, Instant at, const HoldRequested& event);
ApplyResult On(ClusterState& state, Instant at, const ReleaseRequested& event);
ApplyResult On(ClusterState& state, Instant at, const CancelRequested& event);
ApplyResult On(ClusterState& state, Instant at, const DrainRequested& event);
ApplyResult On(ClusterState& state, Instant at, const UndrainRequested& event);
ApplyResult On(ClusterState& state, Instant at, const RemoveRequested& event);
ApplyResult On(ClusterState& state, Instant at, const ValidationRequested& event);
ApplyResult On(ClusterState& state, Instant at, const IncidentVouched& event);
ApplyResult On(ClusterState& state, Instant at, const JobMoved& event);
ApplyResult On(ClusterState& state, Instant at, const MaintenancePlanned& event);
ApplyResult On(ClusterState& state, Instant at, const MaintenanceBegun& event);
ApplyResult On(ClusterState& state, Instant at, const MaintenanceEnded& event);
ApplyResult On(ClusterState& state, Instant at, const JobPlaced& event);
ApplyResult On(ClusterState& state, Instant at, const ClaimMade& event);
ApplyResult On(ClusterState& state, Instant at, const ClaimDropped& event);
ApplyResult On(ClusterState& state, Instant at, const SuspendRequested& event);
ApplyResult On(ClusterState& state, Instant at, const SuspendWithdrawn& event);
ApplyResult On(ClusterState& state, Instant at, const DeadlinePassed& event);
ApplyResult On(ClusterState& state, Instant at, const TimeLimitReached& event);
ApplyResult On(ClusterState& state, Instant at, const DependencyFailed& event);
ApplyResult On(ClusterState& state, Instant at, const JobsArchived& event);
ApplyResult On(ClusterState& state, Instant at, const TaskReported& event);
ApplyResult On(ClusterState& state, Instant at, const NodeJoined& event);
ApplyResult On(ClusterState& state, Instant at, const FaultObserved& event);
ApplyResult On(ClusterState& state, Instant at, const FaultJudged& event);
ApplyResult On(ClusterState& state, Instant at, const IncidentCleared& event);
ApplyResult On(ClusterState& state, Instant at, const IncidentExplained& event);
ApplyResult On(ClusterState& state, Instant at, const IncidentsForgotten& event);
ApplyResult On(ClusterState& state, Instant at, const IdleTestBegun& event);
ApplyResult On(ClusterState& state, Instant at, const ValidationReported& event);
ApplyResult On(ClusterState& state, Instant at, const NodeSilent& event);
ApplyResult On(ClusterState& state, Instant at, const NodeHeard& event);
ApplyResult On(ClusterState& state, Instant at, const NodeLost& event);
ApplyResult On(ClusterState& state, Instant at, const NodeIsolated& event);
ApplyResult On(ClusterState& state, Instant at, const ProbationOver& event);
ApplyResult On(ClusterState& state, Instant at, const JobStalled& event);
ApplyResult On(ClusterState& state, Instant at, const JobStepped& event);
ApplyResult On(ClusterState& state, Instant at, const JobNoted& event);

// --- lookups -------------------------------------------------------------------------------
Result<Job*> FindJob(ClusterState& state, JobId id);
Result<Node*> FindNode(ClusterState& state, NodeId id);

// --- marks ---------------------------------------------------------------------------------
// A row of it is to be written, and the indexes look at it again after the event.
void MarkJob(ClusterState& state, JobId job);
void MarkNode(ClusterState& state, NodeId node);
// What a waiting job claims is kept for it from now on, or no more.
void KeepClaim(ClusterState& state, JobId job, const Claim& claim);
void ReleaseClaim(ClusterState& state, JobId job, const Claim& claim);

// The state after `event`, or kConflict in words for the person who asked.
Result<JobState> CheckJobEvent(const Job& job, JobEvent event);
Result<NodeState> CheckNodeEvent(const Node& node, NodeEvent event);

// Reports whether something is true of all tasks. Looks from the last one on: it comes true in
// about the order of the tasks, and is asked for each of them.
[[nodiscard]] bool AllTasks(const Attempt& attempt, auto predicate) {
  return std::all_of(attempt.tasks.rbegin(), attempt.tasks.rend(), predicate);
}

// --- job transitions (job_transitions.cc); all mark the job as changed ----------------------
void EnterQueued(ClusterState& state, Job& job, Instant at, Queued queued);
void EnterFinished(ClusterState& state, Job& job, Instant at, Finished finished);
void EnterHeld(ClusterState& state, Job& job, Instant at, StartReason next_start);
// From Starting, Running or Saving to Stopping; inside Stopping raises the cause.
//   broke_at: of a fault, when it was seen; not set = now.
void EnterStopping(ClusterState& state,
                   Job& job,
                   Instant at,
                   StopCause cause,
                   const std::string& detail,
                   Instant broke_at = {});
// Judges the job as a whole after tasks or its cause changed: does it run, succeed, or is it gone?
void Settle(ClusterState& state, Job& job, Instant at);
// Judges it after this task changed: did that one fail?
void SettleTask(ClusterState& state, Job& job, uint32_t task, Instant at);

// Every task of a stopping job is gone: run again, stay held, or end, by its cause.
void ResolveStopped(ClusterState& state, Job& job, Instant at);

// --- tasks and nodes -----------------------------------------------------------------------
// The node could not start the job: placement prefers all others for it.
void Avoid(Job& job, NodeId node);
// Marks a task as gone and frees its node.
void ExitTask(ClusterState& state, Job& job, uint32_t task, Instant at, TaskExit exit);
void SetNodeState(ClusterState& state, Node& node, NodeState next, Instant at);
// An operator's hold. Errors: kConflict where the node's state has no place for one.
struct Hold {
  std::string actor;
  std::string reason;
  Instant jobs_leave_at;  // as Node::jobs_leave_at
};
Status HoldNode(ClusterState& state, Node& node, Instant at, const Hold& hold);
// Ends whatever held a node that is draining or drained; CheckProven has seen that it may.
void GiveBack(ClusterState& state, Node& node, Instant at);
// Fails with what took the node out of service, where that is not proven gone yet.
[[nodiscard]] Status CheckProven(const ClusterState& state, const Node& node);
// Cancels a maintenance by which the node is not held, or held as one that broke meanwhile.
// Returns whether that is all there is to undo.
[[nodiscard]] bool CancelMaintenance(ClusterState& state, Node& node, Instant at);
// A draining node without a task is drained.
void SettleNode(ClusterState& state, Node& node, Instant at);
// A task could not start, by the node's fault. A node to which that happens again and again is
// taken out of service: it looks idle, and would draw and fail job after job.
[[nodiscard]] std::string DescribeStuck(const TaskReported& report);
// Nothing starts on it until it is heard and nothing is left on it; where its state allows that.
void SuspectNode(ClusterState& state, Node& node, Instant at, const std::string& why);
void CountFailedStart(ClusterState& state, Node& node, Instant at, const std::string& why);
// A fault, in words, and when it was seen.
struct Breakage {
  std::string why;
  Instant seen_at;
};
// The jobs on `node` cannot go on there.
void FailOccupants(ClusterState& state, const Node& node, Instant at, const Breakage& fault);
// Takes the node out of a validation that proves nothing any more: a try like one that failed.
void EndValidation(ClusterState& state, Node& node, Instant at, const std::string& why);
// Breaks off an idle test of the node: a job, or whatever took it out of service, needs it now. Its
// part in another node's validation ends for all that take part.
void BreakOffTest(ClusterState& state, Node& node);
// Settles jobs that have just failed on the node, once a fault there is judged.
//   fault: what broke it, and is the reason of these failures; nothing: it is not.
void SettleFailures(ClusterState& state,
                    const Node& node,
                    Instant at,
                    const std::optional<Breakage>& fault);

// --- incidents (apply_incident.cc) ---------------------------------------------------------
// Opens an incident, or counts a repeat of an open one.
void RecordFault(ClusterState& state, Instant at, const FaultObserved& fault);
// Notes that the repairs of the node's faults are ordered of its agent now.
void OrderRepairs(ClusterState& state, NodeId node, Instant at);
// Takes back those ordered at `at` that its agent did not begin, by its report, or for lack of one:
// a later validation orders them again.
void TakeBackRepairs(ClusterState& state,
                     NodeId node,
                     Instant at,
                     const std::vector<Verdict>& verdicts);
// Ends the node's incidents: it is whole again, whoever says so.
void ClearIncidents(ClusterState& state, NodeId node, Instant at);

}  // namespace tide::apply
