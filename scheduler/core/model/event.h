#pragma once
// Causes. Every change of the cluster's state is one of these, and all of them are logged.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "scheduler/core/model/incident.h"
#include "scheduler/core/model/job.h"
#include "scheduler/core/model/node.h"
#include "scheduler/core/model/task.h"

namespace tide {

// --- asked for by people -------------------------------------------------------------------
struct JobSubmitted {
  JobId job;
  SharedSpec spec;
  std::string user;
  std::string idempotency_key;
  bool operator==(const JobSubmitted&) const = default;
};
struct HoldRequested {
  JobId job;
  Instant deadline;
  std::string actor;
  std::string reason;
  bool operator==(const HoldRequested&) const = default;
};
struct ReleaseRequested {
  JobId job;
  std::string actor;
  int64_t resume_step = -1;  // as Job::resume_step; -1 = leaves it as it is
  bool operator==(const ReleaseRequested&) const = default;
};
struct CancelRequested {
  JobId job;
  std::string actor;
  std::string reason;
  bool operator==(const CancelRequested&) const = default;
};
struct DrainRequested {
  NodeId node;
  std::string actor;
  std::string reason;
  Instant jobs_leave_at = {};  // as Node::jobs_leave_at
  bool operator==(const DrainRequested&) const = default;
};
struct UndrainRequested {
  NodeId node;
  std::string actor;
  bool operator==(const UndrainRequested&) const = default;
};
struct RemoveRequested {
  NodeId node;
  std::string actor;
  std::string reason;
  bool operator==(const RemoveRequested&) const = default;
};
struct ValidationRequested {
  NodeId node;
  std::string request_id;
  std::string actor;
  std::vector<NodeId> peers = {};  // as Node::peers; those that are not idle any more are left out
  bool operator==(const ValidationRequested&) const = default;
};

// A person's word that a fault is gone, where no validator proves it.
struct IncidentVouched {
  IncidentId incident;
  std::string actor;
  std::string reason;
  bool operator==(const IncidentVouched&) const = default;
};

// The node is to be free of jobs from one time to another.
struct MaintenancePlanned {
  NodeId node;
  Instant begins_at;  // not after the event: it begins at once
  Instant ends_at;
  std::string actor;
  std::string reason;
  bool operator==(const MaintenancePlanned&) const = default;
};

// Within the queue of its user, project and class.
struct JobMoved {
  JobId job;
  JobId before;  // 0 = to the front
  std::string actor;
  bool operator==(const JobMoved&) const = default;
};

// --- decided by the scheduler --------------------------------------------------------------
struct JobPlaced {
  JobId job;
  Epoch epoch;
  Allocation allocation;
  bool opportunistic = false;
  bool operator==(const JobPlaced&) const = default;
};
struct ClaimMade {
  JobId job;
  Claim claim;
  bool operator==(const ClaimMade&) const = default;
};
struct ClaimDropped {
  JobId job;
  bool operator==(const ClaimDropped&) const = default;
};
struct SuspendRequested {
  JobId job;
  StopCause cause = StopCause::kPreempted;  // kPreempted or kDrained
  JobId beneficiary;
  Instant deadline;
  std::string reason;
  bool operator==(const SuspendRequested&) const = default;
};
struct SuspendWithdrawn {
  JobId job;
  bool operator==(const SuspendWithdrawn&) const = default;
};
struct DeadlinePassed {
  JobId job;
  bool operator==(const DeadlinePassed&) const = default;
};
struct TimeLimitReached {
  JobId job;
  bool operator==(const TimeLimitReached&) const = default;
};
// It can never start any more: `awaited` has ended otherwise than its spec wants.
struct DependencyFailed {
  JobId job;
  JobId awaited;
  bool operator==(const DependencyFailed&) const = default;
};

// What an observed fault means by the policy, and whether that is done now.
struct FaultJudged {
  IncidentId incident;
  FaultAction action = FaultAction::kCount;
  std::string meaning;
  HoldReason hold = HoldReason::kNone;  // kNone: now
  IncidentId part_of;
  std::vector<std::string> covers = {};
  std::string repair = {};
  FaultAction shadow = FaultAction::kCount;
  bool operator==(const FaultJudged&) const = default;
};
// It is over, and nobody has to do anything about it.
struct IncidentCleared {
  IncidentId incident;
  bool operator==(const IncidentCleared&) const = default;
};

// It came of another fault of its device.
struct IncidentExplained {
  IncidentId incident;
  IncidentId part_of;
  bool operator==(const IncidentExplained&) const = default;
};

// They ended long ago, or there are too many: from now on only the store knows them.
struct JobsArchived {
  std::vector<JobId> jobs;  // ascending
  Duration half_life;       // of what their owners used lately (ClusterState::archived_use)
  bool operator==(const JobsArchived&) const = default;
};

// Faults that were over long ago: nothing looks back so far.
struct IncidentsForgotten {
  std::vector<IncidentId> incidents;  // ascending
  bool operator==(const IncidentsForgotten&) const = default;
};

// --- reported by agents --------------------------------------------------------------------
struct TaskReported {
  NodeId node;
  JobId job;
  Epoch epoch;
  uint32_t task = 0;
  TaskState state = TaskState::kAssigned;
  TaskExit exit;
  Instant at;
  Instant parked_at;
  int64_t stop_step = -1;
  int64_t saved_step = -1;
  Instant saved_at;
  std::string stuck = {};  // what of it was killed and hangs in the kernel; empty = nothing
  bool operator==(const TaskReported&) const = default;
};
struct NodeJoined {
  NodeId node;
  NodeIdentity identity;
  std::vector<TaskReported> tasks;  // everything the agent holds
  bool operator==(const NodeJoined&) const = default;
};
struct FaultObserved {
  NodeId node;
  FaultKind kind = FaultKind::kXid;
  int32_t code = 0;
  std::string device;
  std::string text;
  Instant seen_at;
  bool gone = false;  // the condition is over: seen to be well again
  bool ends = false;  // its end will be reported, so it is not over before
  bool operator==(const FaultObserved&) const = default;
};
struct ValidationReported {
  NodeId node;
  std::string request_id;
  std::vector<Verdict> verdicts;
  bool operator==(const ValidationReported&) const = default;
};

// --- noticed by the server -----------------------------------------------------------------
struct NodeSilent {
  NodeId node;
  bool operator==(const NodeSilent&) const = default;
};
struct NodeHeard {
  NodeId node;
  bool operator==(const NodeHeard&) const = default;
};
struct NodeLost {
  NodeId node;
  bool operator==(const NodeLost&) const = default;
};
// The agent's isolation timeout is over: it has stopped its tasks, wherever it is.
struct NodeIsolated {
  NodeId node;
  bool operator==(const NodeIsolated&) const = default;
};
struct ProbationOver {
  NodeId node;
  bool operator==(const ProbationOver&) const = default;
};

// Times of Node::maintenance have come.
struct MaintenanceBegun {
  NodeId node;
  bool operator==(const MaintenanceBegun&) const = default;
};
struct MaintenanceEnded {
  NodeId node;
  bool operator==(const MaintenanceEnded&) const = default;
};

// Ranks of a job get on no more (health::JudgeRanks), or again.
struct JobStalled {
  JobId job;
  Epoch epoch;
  Instant since;         // the end of the last step of any rank; not set = it gets on again
  std::string why;       // for people: at which step, and which rank is the odd one
  bool restart = false;  // it stood still for too long: it begins again from its checkpoint
  bool operator==(const JobStalled&) const = default;
};

// Ranks of a job have come to the end of their first step since it started.
struct JobStepped {
  JobId job;
  Epoch epoch;
  Instant first;  // then, as far as it is known
  bool operator==(const JobStepped&) const = default;
};

// Something about the training of a job was seen that a person should read. A loss that is none any
// more leads to what the job's spec asks for.
struct JobNoted {
  JobId job;
  Epoch epoch;
  NoteKind kind = NoteKind::kLossNotFinite;
  int64_t step = -1;      // as JobNote::step
  int64_t good_step = 0;  // the last one before it with a good loss; 0 = not known
  std::string text;
  bool operator==(const JobNoted&) const = default;
};

// A test begins on a node that stands idle.
struct IdleTestBegun {
  NodeId node;
  std::string request_id;
  bool operator==(const IdleTestBegun&) const = default;
};

using EventBody = std::variant<JobSubmitted,
                               HoldRequested,
                               ReleaseRequested,
                               CancelRequested,
                               DrainRequested,
                               UndrainRequested,
                               RemoveRequested,
                               ValidationRequested,
                               JobMoved,
                               IncidentVouched,
                               MaintenancePlanned,
                               JobPlaced,
                               ClaimMade,
                               ClaimDropped,
                               SuspendRequested,
                               SuspendWithdrawn,
                               DeadlinePassed,
                               TimeLimitReached,
                               DependencyFailed,
                               FaultJudged,
                               IncidentCleared,
                               JobsArchived,
                               TaskReported,
                               NodeJoined,
                               FaultObserved,
                               ValidationReported,
                               NodeSilent,
                               NodeHeard,
                               NodeLost,
                               NodeIsolated,
                               ProbationOver,
                               JobStalled,
                               IncidentExplained,
                               IdleTestBegun,
                               JobStepped,
                               MaintenanceBegun,
                               MaintenanceEnded,
                               IncidentsForgotten,
                               JobNoted>;

struct Event {
  Instant at;
  EventBody body;
  bool operator==(const Event&) const = default;
};

// "job_submitted": the `type` column of the events table.
[[nodiscard]] std::string_view EventName(const EventBody& body);

}  // namespace tide
