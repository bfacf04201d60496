#include "scheduler/core/model/slowdown.h"

namespace tide {
namespace {

void Begin(Account& account, Instant at) {
  account.Change(1, at, kSlowdownHalfLife);
}

void End(Account& account, Instant at) {
  account.Change(-1, at, kSlowdownHalfLife);
}

}  // namespace

int64_t Slowdown::At(Instant now, Duration minimum_run) const {
  const int64_t run = ran.UseAt(now, kSlowdownHalfLife) + LeastRun(minimum_run).millis();
  return kNotSlowed * (run + waited.UseAt(now, kSlowdownHalfLife)) / run;
}

Slowdown Slowdown::WaitingSince(Instant since) {
  Slowdown slowdown;
  Begin(slowdown.waited, since);
  return slowdown;
}

Slowdown Slowdown::StartedAt(Instant start) const {
  Slowdown started = *this;
  End(started.waited, start);
  Begin(started.ran, start);
  return started;
}

std::string FoldText(int64_t slowdown) {
  const int64_t tenths = (slowdown + 99) / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "-fold";
}

Slowdown SlowdownOf(const Job& job) {
  Slowdown slowdown;
  for (const Attempt& attempt : job.attempts) {
    if (attempt.queued_at.is_set()) {
      Begin(slowdown.waited, attempt.queued_at);
      End(slowdown.waited, attempt.placed_at);
    }
    if (attempt.running_at.is_set()) {
      Begin(slowdown.ran, attempt.running_at);
      if (attempt.released_at.is_set()) {
        End(slowdown.ran, attempt.released_at);
      }
    }
  }
  if (std::holds_alternative<Queued>(job.phase)) {
    Begin(slowdown.waited, job.state_since);
  }
  return slowdown;
}

}  // namespace tide
