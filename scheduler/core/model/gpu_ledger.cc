#include "scheduler/core/model/gpu_ledger.h"

#include <algorithm>

#include "scheduler/core/model/job.h"

namespace tide {
namespace {

// Whole milliseconds of moments, not of spans: so spans that follow each other add up.
int64_t MillisBetween(Instant from, Instant to) {
  constexpr int64_t kNanosPerMilli = 1'000'000;
  return to.unix_nanos() / kNanosPerMilli - from.unix_nanos() / kNanosPerMilli;
}

// Moves at most that much.
void Move(HeldTime& held, GpuUse from, GpuUse to, int64_t gpu_ms) {
  const int64_t moved = std::clamp<int64_t>(gpu_ms, 0, std::max<int64_t>(0, held[from]));
  held[from] -= moved;
  held[to] += moved;
}

void MoveAll(HeldTime& held, GpuUse from, GpuUse to) {
  held[to] += held[from];
  held[from] = 0;
}

// Returns the GPU-milliseconds that the job has held since then.
int64_t SpentSince(const Job& job, Instant since, Instant at) {
  return MillisBetween(since, at) * job.ledger.gpus;
}

}  // namespace

GpuUse UseNow(const Job& job) {
  if (const auto* stopping = std::get_if<Stopping>(&job.phase)) {
    return stopping->cause == StopCause::kFault ? GpuUse::kLostToFaults : GpuUse::kRestart;
  }
  const JobState state = StateOf(job);
  if (job.attempts.empty() || (state != JobState::kRunning && state != JobState::kSaving)) {
    return GpuUse::kRestart;
  }
  const Attempt& attempt = job.attempts.back();
  if (!attempt.stepped_at.is_set()) {
    return GpuUse::kUnclear;
  }
  if (state == JobState::kSaving && attempt.saved_at.is_set()) {
    return GpuUse::kRestart;  // they leave
  }
  if (state == JobState::kSaving && attempt.parked_at.is_set()) {
    return GpuUse::kSave;
  }
  return attempt.stalled_at.is_set() ? GpuUse::kUnclear : GpuUse::kUnsaved;
}

GpuUse LossOf(StopCause cause) {
  switch (cause) {
    case StopCause::kNone:
      return GpuUse::kUseful;  // it succeeded
    case StopCause::kPreempted:
      return GpuUse::kLostToPreemption;
    case StopCause::kDrained:
    case StopCause::kFault:
      return GpuUse::kLostToFaults;
    case StopCause::kLeft:
      return GpuUse::kRestart;  // it had saved: what is left is the leaving
    case StopCause::kFailed:
    case StopCause::kHeld:
    case StopCause::kTimeLimit:
    case StopCause::kCancelled:
      return GpuUse::kRecomputed;
  }
  return GpuUse::kUnknown;
}

int64_t HeldGpuMs(const Job& job) {
  int64_t total = 0;
  for (const Attempt& attempt : job.attempts) {
    for (const Task& task : attempt.tasks) {
      const Instant end = task.state == TaskState::kExited ? task.exited_at : job.ledger.counted_at;
      total += MillisBetween(attempt.placed_at, end) * task.gpus;
    }
  }
  return total;
}

void CountGpus(Job& job, Instant at) {
  GpuLedger& ledger = job.ledger;
  if (ledger.gpus > 0) {
    ledger.held[UseNow(job)] += SpentSince(job, ledger.counted_at, at);
    ledger.counted_at = at;
  }
}

void BeginGpus(Job& job, Instant at) {
  GpuLedger& ledger = job.ledger;
  for (const Task& task : job.attempts.back().tasks) {
    ledger.gpus += task.gpus;
  }
  if (ledger.gpus > 0) {
    ledger.counted_at = at;
  }
}

void ReleaseGpus(Job& job, const Task& task, Instant at) {
  CountGpus(job, at);
  job.ledger.gpus -= task.gpus;
}

void CountFirstStep(Job& job, Instant at, Instant first) {
  CountGpus(job, at);
  Attempt& attempt = job.attempts.back();
  attempt.stepped_at = std::clamp(first, std::min(attempt.running_at, at), at);
  job.ledger.uses_sdk = true;
  HeldTime& held = job.ledger.held;
  Move(held, GpuUse::kUnclear, GpuUse::kUnsaved, SpentSince(job, attempt.stepped_at, at));
  MoveAll(held, GpuUse::kUnclear, GpuUse::kRestart);
}

void CountParked(Job& job, Instant at, Instant parked) {
  CountGpus(job, at);
  Move(job.ledger.held, GpuUse::kUnsaved, GpuUse::kSave, SpentSince(job, parked, at));
}

void CountSaved(Job& job, Instant at, Instant saved, bool all) {
  CountGpus(job, at);
  job.ledger.uses_sdk = true;
  HeldTime& held = job.ledger.held;
  const int64_t since = all || !saved.is_set() ? 0 : SpentSince(job, saved, at);
  const int64_t open = std::max<int64_t>(0, held[GpuUse::kUnsaved]);
  Move(held, GpuUse::kUnsaved, GpuUse::kUseful, open - std::clamp<int64_t>(since, 0, open));
}

void CountStandstill(Job& job, Instant at, Instant since) {
  CountGpus(job, at);
  Move(job.ledger.held, GpuUse::kUnsaved, GpuUse::kUnclear, SpentSince(job, since, at));
}

void CountGoingOn(Job& job, Instant at) {
  CountGpus(job, at);
  MoveAll(job.ledger.held, GpuUse::kUnclear, GpuUse::kUnknown);
}

void CloseGpus(Job& job, Instant at, StopCause cause) {
  CountGpus(job, at);
  const Attempt& attempt = job.attempts.back();
  HeldTime& held = job.ledger.held;
  MoveAll(held, GpuUse::kUnsaved, LossOf(cause));
  if (!attempt.stepped_at.is_set()) {
    MoveAll(held, GpuUse::kUnclear, job.ledger.uses_sdk ? GpuUse::kRestart : GpuUse::kUnknown);
  } else {
    const bool hung = attempt.stall_ended || cause == StopCause::kFault;
    MoveAll(held, GpuUse::kUnclear, hung ? GpuUse::kLostToFaults : GpuUse::kUnknown);
  }
  job.ledger.gpus = 0;
}

}  // namespace tide
