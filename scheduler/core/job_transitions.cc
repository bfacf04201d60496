// What happens when a job changes phase. Legality was checked by the caller through the table.

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/apply_internal.h"
#include "scheduler/core/black_hole.h"

namespace tide::apply {
namespace {

void ChangePhase(ClusterState& state, Job& job, Instant at, JobPhase phase) {
  if (const auto* queued = std::get_if<Queued>(&job.phase); queued != nullptr && queued->claim) {
    ReleaseClaim(state, job.id, *queued->claim);
  }
  CountGpus(job, at);
  RemoveDependent(state, job);
  job.phase = std::move(phase);
  AddDependent(state, job);
  job.state_since = at;
  MarkJob(state, job.id);
  state.changed.orders.insert(job.id);
}

// Closes the attempt: every task of it is gone.
void CloseAttempt(ClusterState& state, Job& job, Instant at, StopCause cause) {
  AccountOf(state, job).Change(-ChargedGpus(job.spec), at, state.share_half_life);
  CloseGpus(job, at, cause);
  Attempt& attempt = job.attempts.back();
  attempt.released_at = at;
  attempt.end_cause = cause;
  attempt.end_detail = job.detail;
  if (attempt.running_at.is_set()) {
    job.run_time = job.run_time + (at - attempt.running_at);
  }
}

// Estimates ask for these past runs no more, unless another list has them.
void Forget(ClusterState& state, const std::vector<JobId>& jobs) {
  for (const JobId id : jobs) {
    const auto archived = state.archived_runs.find(id);
    if (archived != state.archived_runs.end() && !state.run_history.Has(archived->second)) {
      state.archived_runs.erase(archived);
      state.changed.archived_runs.insert(id);
    }
  }
}

// Restarts that lead nowhere, one after the other, before a job is given up.
constexpr uint32_t kInVainMax = 3;

bool IsFailure(ExitReason reason) {
  switch (reason) {
    case ExitReason::kFailed:
    case ExitReason::kOom:
    case ExitReason::kStartFailed:
    case ExitReason::kLost:
    case ExitReason::kCutOff:
    case ExitReason::kNodeFault:
    case ExitReason::kNoAccount:
      return true;
    case ExitReason::kNone:
    case ExitReason::kSucceeded:
    case ExitReason::kSuspended:
    case ExitReason::kStopped:
      return false;
  }
  return false;
}

// The node ended the task, or could not start it; the program did nothing wrong.
bool IsNodesFault(ExitReason reason) {
  return reason == ExitReason::kLost || reason == ExitReason::kCutOff ||
         reason == ExitReason::kNodeFault || reason == ExitReason::kNoAccount;
}

std::string DescribeExit(const ClusterState& state, const Task& task) {
  const std::string node = state.nodes[task.node.value()].identity.name;
  if (task.exit.reason == ExitReason::kNodeFault || task.exit.reason == ExitReason::kNoAccount) {
    return node + " could not start it: " + task.exit.message;
  }
  return task.exit.message.empty() ? "task on " + node + " ended" : task.exit.message;
}

int32_t ExitCodeOf(const Job& job) {
  for (const Task& task : job.attempts.back().tasks) {
    if (IsFailure(task.exit.reason)) {
      if (task.exit.signal != 0) {
        return 128 + task.exit.signal;
      }
      return task.exit.code != 0 ? task.exit.code : 1;
    }
  }
  return 1;
}

// The first fault costs no time: the job goes on at once, elsewhere. One that does not even start
// again and again waits longer each time, so that it does not wear out its restarts in a second.
Instant AfterFault(const Job& job, Instant at) {
  constexpr Duration kFirst = Duration::Seconds(5);
  constexpr Duration kMost = Duration::Minutes(5);
  const uint32_t failed = FailedStarts(job);
  if (failed < 2) {
    return Instant();
  }
  Duration backoff = kFirst;
  for (uint32_t i = 2; i < failed && backoff < kMost; ++i) {
    backoff = backoff * 2;
  }
  return at + std::min(backoff, kMost);
}

// It saved and left. A notice that was taken back too late costs it no time (docs/adr/0001); a
// program that leaves unasked waits, and is not started for ever when that leads nowhere.
void ResolveLeft(ClusterState& state, Job& job, Instant at, JobId beneficiary) {
  constexpr Duration kLeast = Duration::Seconds(1);
  const uint32_t in_vain = LeftInVain(job);
  if (in_vain >= kInVainMax) {
    job.detail = "saved and left on its own " + std::to_string(in_vain) +
                 " times in a row without a newer step; see the exit codes of its ranks";
    EnterFinished(state, job, at, {Outcome::kFailed, ExitCodeOf(job)});
    return;
  }
  Instant not_before;
  if (!job.attempts.back().notice_at.is_set()) {
    not_before = at + std::max(job.spec->retry_backoff, kLeast) * (in_vain + 1);
  }
  ++job.suspensions;
  EnterQueued(state, job, at, {StartReason::kResumed, not_before, beneficiary, std::nullopt});
}

// Its loss ended the attempt: the job goes back to an older checkpoint at once, or is over.
void ResolveLoss(ClusterState& state, Job& job, Instant at, JobId beneficiary) {
  if (job.attempts.back().loss_end == OnNan::kStop) {
    EnterFinished(state, job, at, {Outcome::kFailed, ExitCodeOf(job)});
    return;
  }
  EnterQueued(state, job, at, {StartReason::kRetry, Instant(), beneficiary, std::nullopt});
}

// All tasks are gone and the job was Stopping: run again, stay held, or end, by cause.
void Resolve(ClusterState& state, Job& job, Instant at, StopCause cause, JobId beneficiary) {
  CloseAttempt(state, job, at, cause);
  switch (cause) {
    case StopCause::kNone:
    case StopCause::kPreempted:
    case StopCause::kDrained:
      ++job.suspensions;
      EnterQueued(state, job, at, {StartReason::kResumed, Instant(), beneficiary, std::nullopt});
      return;
    case StopCause::kLeft:
      ResolveLeft(state, job, at, beneficiary);
      return;
    case StopCause::kHeld:
      ++job.suspensions;
      EnterHeld(state, job, at, StartReason::kResumed);
      return;
    case StopCause::kFault:
      if (const uint32_t in_vain = StalledInVain(job);
          job.attempts.back().stall_ended && in_vain >= kInVainMax) {
        job.detail += " (" + std::to_string(in_vain) +
                      " times in a row without a newer checkpoint: its own code may be the reason)";
        EnterFinished(state, job, at, {Outcome::kFailed, ExitCodeOf(job)});
        return;
      }
      if (job.hardware_restarts < job.spec->retry_hardware_max) {
        ++job.hardware_restarts;
        EnterQueued(
            state, job, at, {StartReason::kFault, AfterFault(job, at), beneficiary, std::nullopt});
        return;
      }
      job.detail += " (retry.hardware is used up)";
      EnterFinished(state, job, at, {Outcome::kFailed, ExitCodeOf(job)});
      return;
    case StopCause::kFailed:
      if (job.attempts.back().loss_end != OnNan::kNote) {
        ResolveLoss(state, job, at, beneficiary);
        return;
      }
      if (job.resume_before > 0) {
        job.detail = "was to go back below step " + std::to_string(job.resume_before) +
                     ", where its loss was good, and failed: " + job.detail;
      }
      if (job.resume_step >= 0) {
        // Its user sent it back, maybe to a step that is not there: that does not end it.
        job.detail = "was to go back to step " + std::to_string(job.resume_step) +
                     " and failed: " + job.detail + "; resume it with another `--step`";
        EnterHeld(state, job, at, StartReason::kResumed);
        return;
      }
      if (job.failure_restarts < job.spec->retry_failure_max) {
        ++job.failure_restarts;
        const Instant not_before = at + job.spec->retry_backoff * job.failure_restarts;
        EnterQueued(state, job, at, {StartReason::kRetry, not_before, beneficiary, std::nullopt});
        return;
      }
      EnterFinished(state, job, at, {Outcome::kFailed, ExitCodeOf(job)});
      return;
    case StopCause::kTimeLimit:
      EnterFinished(state, job, at, {Outcome::kFailed, 124});  // as timeout(1) reports it
      return;
    case StopCause::kCancelled:
      EnterFinished(state, job, at, {Outcome::kCancelled, 130});
      return;
  }
}

// Returns the open fault that breaks the task's node but is held back. One that nobody has judged
// yet says nothing: if it explains the failure, its judgement will (SettleFailures).
const Incident* BreakOf(const ClusterState& state, NodeId node) {
  for (const IncidentId id : state.open_incidents.On(node)) {
    const Incident& incident = state.incidents.at(id);
    if (incident.stage == IncidentStage::kHeld && incident.action == FaultAction::kDrainNow) {
      return &incident;
    }
  }
  return nullptr;
}

// Reports whether a fault on the node of a task that failed is not judged yet: it may be the
// reason.
bool AwaitsJudgement(const ClusterState& state, const Job& job) {
  if (std::get<Stopping>(job.phase).cause != StopCause::kFailed) {
    return false;
  }
  return std::ranges::any_of(job.attempts.back().tasks, [&](const Task& task) {
    const std::vector<IncidentId>& open = state.open_incidents.On(task.node);
    return task.exit.reason == ExitReason::kFailed && std::ranges::any_of(open, [&](IncidentId id) {
             return state.incidents.at(id).stage == IncidentStage::kSeen;
           });
  });
}

// Stops a job one of whose tasks failed while it was to go on, or to save. In one that stops
// already the failure says nothing new, but evidence against a node still raises the cause: ranks
// fail of a peer that is gone, often before the report about that peer arrives.
void FailFromTask(ClusterState& state, Job& job, const Task& task, Instant at) {
  if (IsNodesFault(task.exit.reason)) {
    EnterStopping(state, job, at, StopCause::kFault, DescribeExit(state, task));
    return;
  }
  if (!IsFailure(task.exit.reason)) {
    return;
  }
  if (const Incident* fault = BreakOf(state, task.node)) {
    EnterStopping(state, job, at, StopCause::kFault, DescribeIncident(*fault), fault->last_seen_at);
  } else if (StateOf(job) != JobState::kStopping) {
    EnterStopping(state, job, at, StopCause::kFailed, DescribeExit(state, task));
    Node& node = state.nodes[task.node.value()];
    if (task.exit.reason == ExitReason::kFailed) {
      MarkNode(state, node.id);
      if (NoteQuickFailure(state, node, job, at) && IsInService(node)) {
        RecordFault(state,
                    at,
                    {node.id,
                     FaultKind::kBlackHole,
                     0,
                     "",
                     "jobs of several users failed on it within seconds of their start",
                     at});
      }
    }
  }
}

}  // namespace

void EnterQueued(ClusterState& state, Job& job, Instant at, Queued queued) {
  ChangePhase(state, job, at, std::move(queued));
}

void EnterHeld(ClusterState& state, Job& job, Instant at, StartReason next_start) {
  ChangePhase(state, job, at, Held{next_start});
}

void EnterFinished(ClusterState& state, Job& job, Instant at, Finished finished) {
  ChangePhase(state, job, at, finished);
  if (const auto owned = RunOf(job, at)) {
    Forget(state, state.run_history.Add(*owned));
  }
  SettleDependents(state, job, at);
}

void EnterStopping(ClusterState& state,
                   Job& job,
                   Instant at,
                   StopCause cause,
                   const std::string& detail,
                   Instant broke_at) {
  MarkJob(state, job.id);
  Attempt& attempt = job.attempts.back();
  if (cause == StopCause::kFault && !attempt.broke_at.is_set()) {
    attempt.broke_at = broke_at.is_set() ? std::max(attempt.placed_at, std::min(broke_at, at)) : at;
  }
  if (!attempt.stop_at.is_set()) {
    attempt.stop_at = at;
  }
  if (auto* stopping = std::get_if<Stopping>(&job.phase)) {
    if (cause > stopping->cause) {
      state.changed.orders.insert(job.id);
      CountGpus(job, at);
      stopping->cause = cause;
      job.detail = detail;
    }
    return;
  }
  const Allocation* allocation = AllocationOf(job);
  TIDE_CHECK(allocation != nullptr, "only a job with nodes can be stopped");
  Stopping next{*allocation, cause, JobId(), false};
  if (const auto* saving = std::get_if<Saving>(&job.phase)) {
    next.cause = std::max(cause, saving->cause);
    next.beneficiary = saving->beneficiary;
  }
  if (next.cause == cause) {
    job.detail = detail;
  }
  ChangePhase(state, job, at, std::move(next));
}

void SettleTask(ClusterState& state, Job& job, uint32_t task, Instant at) {
  FailFromTask(state, job, job.attempts.back().tasks[task], at);
  Settle(state, job, at);
}

void Settle(ClusterState& state, Job& job, Instant at) {
  Attempt& attempt = job.attempts.back();
  const bool all_exited =
      AllTasks(attempt, [](const Task& task) { return task.state == TaskState::kExited; });
  const bool all_succeeded = AllTasks(
      attempt, [](const Task& task) { return task.exit.reason == ExitReason::kSucceeded; });

  if (StateOf(job) == JobState::kStarting &&
      AllTasks(attempt, [](const Task& task) { return task.state >= TaskState::kRunning; })) {
    job.detail.clear();
    job.avoid.clear();
    ChangePhase(state, job, at, Running{*AllocationOf(job)});
    attempt.running_at = at;
  }
  if (!all_exited) {
    return;
  }
  if (all_succeeded && StateOf(job) != JobState::kStarting) {
    job.detail.clear();
    CloseAttempt(state, job, at, StopCause::kNone);
    EnterFinished(state, job, at, {Outcome::kSucceeded, 0});
    return;
  }
  if (StateOf(job) == JobState::kRunning) {
    EnterStopping(state, job, at, StopCause::kLeft, "saved and left on its own");
  } else if (const auto* saving = std::get_if<Saving>(&job.phase)) {
    EnterStopping(state, job, at, saving->cause, job.detail);
  }
  if (StateOf(job) == JobState::kStopping && !AwaitsEvidence(job) && !AwaitsJudgement(state, job)) {
    ResolveStopped(state, job, at);
  }
}

void ResolveStopped(ClusterState& state, Job& job, Instant at) {
  const auto& stopping = std::get<Stopping>(job.phase);
  Resolve(state, job, at, stopping.cause, stopping.beneficiary);
}

}  // namespace tide::apply
