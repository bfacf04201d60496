#pragma once
// Where a job's GPU time went. Every GPU-millisecond that it held is in exactly one class
// (gpu_use.h), so that the classes add up to what it held, exactly, after each event.
//
// Only events of the log count: starts and ends, the first step that was seen, notices, saves
// and standstills. Time since the newest checkpoint waits as kUnsaved for what becomes of it: the
// next checkpoint or the job's success makes it useful, the end of the attempt loses it.

#include <cstdint>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "scheduler/core/model/gpu_use.h"

namespace tide {

struct Job;
struct Task;
enum class StopCause : uint8_t;

struct GpuLedger {
  HeldTime held;
  uint32_t gpus = 0;      // that it holds now
  bool uses_sdk = false;  // its ranks were seen to save, or to make steps
  Instant counted_at;     // up to here; not set = it has held no GPU
  bool operator==(const GpuLedger&) const = default;
};

// The class of what the job does now.
[[nodiscard]] GpuUse UseNow(const Job& job);

// What becomes of work that was not saved when an attempt ended so.
[[nodiscard]] GpuUse LossOf(StopCause cause);

// Returns the GPU-milliseconds that its tasks held, up to GpuLedger::counted_at: from those alone.
// Tasks that were started before there was a ledger count as none.
[[nodiscard]] int64_t HeldGpuMs(const Job& job);

// --- Called by Apply, before what the job does changes. ---------------------------------------

// Counts what the job did up to now.
void CountGpus(Job& job, Instant at);
// A new attempt holds its nodes; one of its tasks is gone.
void BeginGpus(Job& job, Instant at);
void ReleaseGpus(Job& job, const Task& task, Instant at);
// Its ranks have come to the end of their first step.
//   first: then, as far as it is known.
void CountFirstStep(Job& job, Instant at, Instant first);
// Every rank waits for the save, since `parked`.
void CountParked(Job& job, Instant at, Instant parked);
// A checkpoint was committed at `saved`.
//   all: of the step at which its ranks stopped, so that nothing is left to lose.
void CountSaved(Job& job, Instant at, Instant saved, bool all);
// Its ranks get on no more since then, or again.
void CountStandstill(Job& job, Instant at, Instant since);
void CountGoingOn(Job& job, Instant at);
// The attempt has ended: decides what is still open. Every task of it is gone.
void CloseGpus(Job& job, Instant at, StopCause cause);

}  // namespace tide
