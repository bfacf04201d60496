#include "sim/replay/gang.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/model/job.h"

namespace tide::sim {

Gang::Gang(
    const RunCosts& costs, bool saves, uint32_t nodes, uint32_t gpus_per_node, int64_t duration_ms)
    : costs_(&costs), saves_(saves), nodes_(nodes), gpus_per_node_(gpus_per_node) {
  record.gpus = nodes * gpus_per_node;
  record.duration_ms = duration_ms;
}

int64_t Gang::EndsAt() const {
  return run_since_ms_ + costs_->TimeFor(record.duration_ms - progress_ms_);
}

int64_t Gang::StartCost() const {
  return epoch_.value() <= 1 ? costs_->start_ms : costs_->restart_ms;
}

void Gang::Account(int64_t now_ms) {
  const int64_t span = now_ms - since_ms_;
  const int64_t gpu_span = span * live_count_ * gpus_per_node_;
  switch (phase_) {
    case GangPhase::kComing:
    case GangPhase::kDone:
      break;
    case GangPhase::kWaiting:
      record.wait_ms += span;
      record.fault_wait_ms += faulted_ ? span : 0;
      break;
    case GangPhase::kStarting:
    case GangPhase::kEnding:
      record.held[GpuUse::kRestart] += gpu_span;
      break;
    case GangPhase::kRunning:
      break;  // LeaveRun divides it into work and saving
    case GangPhase::kSaving:
      record.held[GpuUse::kSave] += gpu_span;
      break;
    case GangPhase::kBroken:
      record.held[GpuUse::kLostToFaults] += gpu_span;
      record.broken_gpu_ms += gpu_span;
      break;
  }
  since_ms_ = now_ms;
}

void Gang::Enter(int64_t now_ms, GangPhase phase) {
  Account(now_ms);
  phase_ = phase;
}

void Gang::LeaveRun(int64_t now_ms) {
  TIDE_CHECK(phase_ == GangPhase::kRunning, "only a run can be left");
  const int64_t elapsed = now_ms - run_since_ms_;
  const int64_t work = costs_->WorkIn(elapsed);
  record.held[GpuUse::kUseful] += work * gpus();
  record.held[GpuUse::kSave] += (elapsed - work) * gpus();
  saved_ms_ = std::max(saved_ms_, progress_ms_ + costs_->SavedIn(elapsed));
  progress_ms_ += work;
}

void Gang::LoseUnsaved(GpuUse use) {
  const int64_t lost = (progress_ms_ - saved_ms_) * gpus();
  record.held[GpuUse::kUseful] -= lost;
  record.held[use] += lost;
  progress_ms_ = saved_ms_;
}

void Gang::Submit(int64_t now_ms) {
  record.submit_ms = now_ms;
  since_ms_ = now_ms;
  phase_ = GangPhase::kWaiting;
}

void Gang::Place(int64_t now_ms, Epoch epoch, std::vector<NodeId> tasks) {
  TIDE_CHECK(phase_ == GangPhase::kWaiting, "a job starts once at a time");
  Enter(now_ms, GangPhase::kStarting);
  if (record.first_start_ms < 0) {
    record.first_start_ms = now_ms;
  }
  epoch_ = epoch;
  tasks_ = std::move(tasks);
  live_.assign(tasks_.size(), true);
  live_count_ = static_cast<uint32_t>(tasks_.size());
  faulted_ = false;
}

void Gang::BeginRun(int64_t now_ms) {
  Enter(now_ms, GangPhase::kRunning);
  run_since_ms_ = now_ms;
}

void Gang::BeginSave(int64_t now_ms) {
  LeaveRun(now_ms);
  Enter(now_ms, GangPhase::kSaving);
}

void Gang::EndSave(int64_t now_ms) {
  saved_ms_ = progress_ms_;
  Enter(now_ms, GangPhase::kEnding);
}

void Gang::EndRun(int64_t now_ms) {
  LeaveRun(now_ms);
  TIDE_CHECK(progress_ms_ == record.duration_ms, "a job ends when its work is done");
  record.end_ms = now_ms;
  Enter(now_ms, GangPhase::kDone);
}

void Gang::Stop(int64_t now_ms) {
  if (phase_ == GangPhase::kRunning) {
    LeaveRun(now_ms);
  }
  if (phase_ != GangPhase::kBroken) {
    LoseUnsaved(LossOf(StopCause::kPreempted));
  }
  Enter(now_ms, GangPhase::kEnding);
}

void Gang::Break(int64_t now_ms) {
  if (phase_ == GangPhase::kBroken || phase_ == GangPhase::kEnding || live_count_ == 0) {
    return;
  }
  if (phase_ == GangPhase::kRunning) {
    LeaveRun(now_ms);
  }
  Enter(now_ms, GangPhase::kBroken);
  LoseUnsaved(LossOf(StopCause::kFault));
  faulted_ = true;
  ++record.faults;
}

void Gang::Release(int64_t now_ms, uint32_t task) {
  TIDE_CHECK(live_[task], "a task leaves once");
  Account(now_ms);
  live_[task] = false;
  --live_count_;
  if (live_count_ == 0 && phase_ != GangPhase::kDone) {
    phase_ = GangPhase::kWaiting;
  }
}

}  // namespace tide::sim
