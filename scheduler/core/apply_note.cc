// Notes about the training of jobs, and the end of attempts whose loss is none any more.

#include "scheduler/core/apply_internal.h"

namespace tide::apply {
namespace {

// Attempts that may go back in a row until one has saved a step beyond.
constexpr uint32_t kRollbacksMax = 3;

// Returns why the job ends instead of going back; "" = it goes back.
std::string WhyNoRollback(const Job& job, int64_t step) {
  if (job.checkpoint.step <= 0) {
    return "there is no checkpoint to go back to";
  }
  for (const Attempt& attempt : job.attempts) {
    const JobNote* earlier = FindNote(attempt, NoteKind::kLossNotFinite);
    if (attempt.loss_end == OnNan::kRollback && earlier->step >= step) {
      return "it went back before, after step " + std::to_string(earlier->step) +
             ", and got no further";
    }
  }
  const uint32_t in_vain = RolledBackInVain(job);
  return in_vain < kRollbacksMax
             ? ""
             : "it went back " + std::to_string(in_vain) + " times and never saved a step beyond";
}

// Ends the attempt as the spec has it. The last step with a good loss proves the checkpoints before
// it: later ones may hold what made the loss bad.
void EndForLoss(ClusterState& state, Job& job, Instant at, const JobNoted& event) {
  const bool stop = job.spec->on_nan == OnNan::kStop;
  const std::string why = stop ? "" : WhyNoRollback(job, event.step);
  Attempt& attempt = job.attempts.back();
  if (stop || !why.empty()) {
    attempt.loss_end = OnNan::kStop;
    EnterStopping(state,
                  job,
                  at,
                  StopCause::kFailed,
                  event.text + (stop ? " (health.on_nan: stop)"
                                     : " (health.on_nan: rollback, but " + why + ")"));
    return;
  }
  attempt.loss_end = OnNan::kRollback;
  job.resume_before = event.good_step > 0 ? event.good_step : event.step;
  job.resume_step = -1;
  EnterStopping(state,
                job,
                at,
                StopCause::kFailed,
                event.text + "; it goes back to a checkpoint below step " +
                    std::to_string(job.resume_before));
}

}  // namespace

// Changes nothing once the job leaves, or has left.
ApplyResult On(ClusterState& state, Instant at, const JobNoted& event) {
  TIDE_ASSIGN(Job * job, FindJob(state, event.job));
  const bool runs = StateOf(*job) == JobState::kRunning || StateOf(*job) == JobState::kSaving;
  if (!runs || job->attempts.back().epoch != event.epoch) {
    return Applied::kNoOp;
  }
  Attempt& attempt = job->attempts.back();
  if (const JobNote* known = FindNote(attempt, event.kind);
      known != nullptr && (event.kind != NoteKind::kLossSpike || event.step <= known->step)) {
    return Applied::kNoOp;
  }
  std::erase_if(attempt.notes, [&](const JobNote& each) { return each.kind == event.kind; });
  attempt.notes.push_back({event.kind, event.step, at, event.text});
  std::ranges::sort(attempt.notes, {}, &JobNote::kind);
  MarkJob(state, job->id);
  if (event.kind == NoteKind::kLossNotFinite && job->spec->on_nan != OnNan::kNote) {
    EndForLoss(state, *job, at, event);
  }
  return Applied::kChanged;
}

}  // namespace tide::apply
