#include "scheduler/core/model/live_jobs.h"

#include <algorithm>

namespace tide {

std::optional<Duration> MeasuredSuspension(const Job& job) {
  for (size_t i = job.attempts.size(); i-- > 1;) {
    const Attempt& left = job.attempts[i - 1];
    const Attempt& next = job.attempts[i];
    if (left.end_cause == StopCause::kPreempted && left.notice_at.is_set() &&
        left.released_at.is_set() && next.running_at.is_set()) {
      return (left.released_at - left.notice_at) + (next.running_at - next.placed_at);
    }
  }
  return std::nullopt;
}

namespace {

// Returns whether the job saved when it was asked to leave last; nothing where it never was. One
// that was asked before it ran could not.
std::optional<bool> SavedWhenAsked(const Job& job) {
  for (auto attempt = job.attempts.rbegin(); attempt != job.attempts.rend(); ++attempt) {
    if (attempt->end_cause == StopCause::kPreempted && attempt->running_at.is_set() &&
        attempt->notice_at.is_set()) {
      return attempt->saved_at.is_set();
    }
  }
  return std::nullopt;
}

}  // namespace

Duration LiveJob::UnsavedAt(Instant now) const {
  return saves || !running_at.is_set() ? Duration() : std::max(now - saved_at, Duration());
}

LiveJob LineOf(
    const Job& job, uint32_t owner, uint32_t user, uint32_t group, const LiveJob* before) {
  const Attempt& attempt = job.attempts.back();
  LiveJob line;
  line.id = job.id;
  line.owner = owner;
  line.user = user;
  line.group = group;
  line.node = AllocationOf(job)->nodes.front();
  line.nodes = job.spec->nodes;
  line.priority = job.spec->priority;
  line.leaving =
      std::holds_alternative<Saving>(job.phase) || std::holds_alternative<Stopping>(job.phase);
  line.opportunistic = attempt.opportunistic;
  line.on_part = AllocationOf(job)->part.has_value();
  line.gpus = ChargedGpus(job.spec);
  line.rank = job.queue_rank;
  line.placed_at = attempt.placed_at;
  line.running_at = attempt.running_at;
  line.run_time = job.run_time;
  // Thousands of reports of one attempt change nothing of the ones before.
  if (before != nullptr && before->placed_at == line.placed_at &&
      before->running_at == line.running_at) {
    line.suspension_cost = before->suspension_cost;
    line.slowdown = before->slowdown;
    line.saved_when_asked = before->saved_when_asked;
  } else {
    line.suspension_cost = MeasuredSuspension(job);
    line.slowdown = SlowdownOf(job);
    line.saved_when_asked = SavedWhenAsked(job);
  }
  // A job that has ever saved speaks the protocol.
  line.saves = line.saved_when_asked.value_or(job.checkpoint.step >= 0);
  line.saved_at = attempt.running_at;
  if (job.checkpoint.step >= 0 && job.checkpoint.epoch == attempt.epoch) {
    line.saved_at = std::max(line.saved_at, job.checkpoint.at);
  }
  return line;
}

void LiveJobs::Put(const Job& job, uint32_t owner, uint32_t user, uint32_t group) {
  const auto [it, fresh] = places_.try_emplace(job.id, jobs_.size());
  if (fresh) {
    jobs_.emplace_back();
  }
  LiveJob& line = jobs_[it->second];
  line = LineOf(job, owner, user, group, fresh ? nullptr : &line);
}

void LiveJobs::Remove(JobId job) {
  const auto it = places_.find(job);
  if (it == places_.end()) {
    return;
  }
  const size_t place = it->second;
  places_.erase(it);
  if (place + 1 != jobs_.size()) {
    jobs_[place] = jobs_.back();
    places_[jobs_[place].id] = place;
  }
  jobs_.pop_back();
}

const LiveJob* LiveJobs::Find(JobId job) const {
  const auto it = places_.find(job);
  return it == places_.end() ? nullptr : &jobs_[it->second];
}

}  // namespace tide
