// Events about whether the ranks of jobs get on.

#include "scheduler/core/apply_internal.h"

namespace tide::apply {
namespace {

// Withdraws what was told of it.
void GoOn(ClusterState& state, Job& job, Instant at) {
  CountGoingOn(job, at);
  job.attempts.back().stalled_at = Instant();
  job.detail.clear();
  MarkJob(state, job.id);
}

}  // namespace

// Changes nothing once the job leaves, or has left. One that is asked to save has a deadline.
ApplyResult On(ClusterState& state, Instant at, const JobStalled& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  if (StateOf(*job) != JobState::kRunning || job->attempts.back().epoch != event.epoch) {
    return Applied::kNoOp;
  }
  Attempt& attempt = job->attempts.back();
  if (!event.since.is_set()) {
    if (!attempt.stalled_at.is_set()) {
      return Applied::kNoOp;
    }
    GoOn(state, *job, at);
    return Applied::kChanged;
  }
  if (event.restart) {
    if (!attempt.stalled_at.is_set()) {
      CountStandstill(*job, at, event.since);
    }
    attempt.stalled_at = event.since;
    attempt.stall_ended = true;
    EnterStopping(state, *job, at, StopCause::kFault, event.why, event.since);
    return Applied::kChanged;
  }
  if (attempt.stalled_at.is_set() && job->detail == event.why) {
    return Applied::kNoOp;
  }
  if (!attempt.stalled_at.is_set()) {
    CountStandstill(*job, at, event.since);
    attempt.stalled_at = event.since;
    state.changed.orders.insert(job->id);  // its agents are to show what its ranks are doing
  }
  job->detail = event.why;
  MarkJob(state, job->id);
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const JobStepped& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  if (!AwaitsFirstStep(*job) || job->attempts.back().epoch != event.epoch) {
    return Applied::kNoOp;
  }
  CountFirstStep(*job, at, event.first);
  MarkJob(state, job->id);
  return Applied::kChanged;
}

}  // namespace tide::apply
