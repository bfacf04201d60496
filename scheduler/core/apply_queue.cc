// Events about the place of a job in the queue.

#include <algorithm>

#include "scheduler/core/apply_internal.h"
#include "scheduler/core/model/user_order.h"

namespace tide::apply {
namespace {

std::string Name(const Job& job) {
  return FormatJobName(job.id.value());
}

Status CheckWaits(const Job& job) {
  if (StateOf(job) == JobState::kQueued) {
    return {};
  }
  return Fail(ErrorCode::kConflict,
              Name(job) + " is " + std::string(JobStateName(StateOf(job))) +
                  ": only a job that is queued has a place in the order");
}

// Both stand in one queue, whose order is its owner's affair.
Status CheckSameQueue(const Job& job, const Job& before) {
  if (before.user != job.user) {
    return Fail(ErrorCode::kPermissionDenied,
                Name(before) + " belongs to " + before.user + ", " + Name(job) + " to " + job.user +
                    ": a job moves among those of its own user");
  }
  if (before.spec->project != job.spec->project) {
    return Fail(ErrorCode::kConflict,
                Name(before) + " is of project " + before.spec->project + ", " + Name(job) +
                    " of " + job.spec->project + ": a job moves among those of its own project");
  }
  if (before.spec->priority != job.spec->priority) {
    return Fail(ErrorCode::kConflict,
                Name(before) + " has priority " + PriorityName(before.spec->priority) + ", " +
                    Name(job) + " " + PriorityName(job.spec->priority) +
                    ": a job moves among those of its own priority");
  }
  return CheckWaits(before);
}

}  // namespace

ApplyResult On(ClusterState& state, Instant /*at*/, const JobMoved& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckWaits(*job));
  if (event.before == event.job) {
    return Fail(ErrorCode::kInvalidArgument, Name(*job) + " cannot stand before itself");
  }
  size_t place = 0;
  const std::vector<const Job*> queue = QueueOf(state, *job);
  if (event.before != JobId()) {
    TIDE_ASSIGN(const Job* before, FindJob(state, event.before));
    TIDE_TRY(CheckSameQueue(*job, *before));
    place = static_cast<size_t>(std::ranges::find(queue, before) - queue.begin());
  }
  const auto stands =
      std::ranges::find_if(queue, [&](const Job* o) { return ComesFirst(*job, *o); });
  if (stands - queue.begin() == static_cast<std::ptrdiff_t>(place)) {
    return Applied::kNoOp;  // it stands there already, or alone
  }
  for (const RankChange& change : RanksToStandBefore(*job, queue, place)) {
    Job& moved = state.jobs.at(change.job);
    state.queue.Remove(moved, OwnerOf(state, moved));  // it is found there by its rank
    moved.queue_rank = change.rank;
    MarkJob(state, moved.id);
  }
  return Applied::kChanged;
}

ApplyResult On(ClusterState& state, Instant at, const DependencyFailed& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  TIDE_TRY(CheckJobEvent(*job, JobEvent::kDependencyFailed));
  const auto failed = std::ranges::find(job->spec->after, event.awaited, &Dependency::job);
  if (failed == job->spec->after.end() || !state.dependencies.doomed.contains(job->id) ||
      StateOf(state, *failed) != DependencyState::kNever) {
    return Fail(ErrorCode::kConflict,
                FormatJobName(job->id.value()) + " may still start after " +
                    FormatJobName(event.awaited.value()));
  }
  job->detail = DescribeNeverMet(state, *failed);
  EnterFinished(state, *job, at, {Outcome::kCancelled, 130});
  return Applied::kChanged;
}

}  // namespace tide::apply
