// Finished jobs leave the state; what decisions still ask of them stays.

#include <algorithm>
#include <functional>
#include <utility>

#include "scheduler/core/apply_internal.h"

namespace tide::apply {
namespace {

// Their owner's account has it already; a load will find it here.
void KeepUse(ClusterState& state, const Job& job, Duration half_life) {
  if (job.attempts.empty()) {
    return;
  }
  const RunHistory::Owner owner(job.spec->project, job.user);
  ArchivedUse& kept = state.archived_use[owner];
  kept.lately.Add(UseOf(job, half_life), half_life);
  kept.held.Add(job.ledger.held);
  if (kept.lately.use_ms == 0 && kept.held == HeldTime()) {
    state.archived_use.erase(owner);  // so long ago that nothing is left
  }
  state.changed.archived_use.insert(owner);
}

void KeepRun(ClusterState& state, const Job& job) {
  if (auto owned = RunOf(job, job.state_since); owned && state.run_history.Has(*owned)) {
    state.archived_runs.emplace(job.id, std::move(*owned));
    state.changed.archived_runs.insert(job.id);
  }
}

void Archive(ClusterState& state, const Job& job, Duration half_life) {
  const JobId id = job.id;
  KeepUse(state, job, half_life);
  KeepRun(state, job);
  if (const auto key = state.job_by_key.find(job.idempotency_key);
      key != state.job_by_key.end() && key->second == id) {
    state.job_by_key.erase(key);
  }
  state.dependencies.arrays.erase(job.array);
  state.finished.oldest.erase({job.state_since, id});
  state.changed.jobs.erase(id);
  state.changed.orders.erase(id);
  state.changed.archived.insert(id);
  state.jobs.erase(id);
}

}  // namespace

ApplyResult On(ClusterState& state, Instant /*at*/, const JobsArchived& event) {
  if (std::ranges::adjacent_find(event.jobs, std::ranges::greater_equal()) != event.jobs.end()) {
    return Fail(ErrorCode::kConflict, "jobs to archive come in order, each once");
  }
  for (const JobId id : event.jobs) {
    TIDE_ASSIGN(const Job* job, FindJob(state, id));
    if (!MayBeArchived(state, *job)) {
      return Fail(ErrorCode::kConflict,
                  FormatJobName(id.value()) + " has not ended, or another job asks for it");
    }
  }
  for (const JobId id : event.jobs) {
    Archive(state, state.jobs.at(id), event.half_life);
  }
  return event.jobs.empty() ? Applied::kNoOp : Applied::kChanged;
}

}  // namespace tide::apply
