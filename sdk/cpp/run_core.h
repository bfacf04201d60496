#pragma once
// What is behind a Run: the page, the socket, and what a tick does to them.

#include <time.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "sdk/cpp/agreement.h"
#include "sdk/cpp/api.h"
#include "sdk/cpp/page.h"
#include "sdk/cpp/reporter.h"

namespace tide::cpp {

class RunCore {
 public:
  // Errors: throws, as Run's constructor does.
  explicit RunCore(const Run::Variables& environment);

  const int64_t rank;
  const int64_t world;
  const int64_t local_rank;
  const int64_t local_world;  // ranks on this node
  const std::string job;
  const std::optional<int64_t> attempt;
  const std::string start;  // name of this start among all others; empty: the platform gave none
  const std::string checkpoint_dir;
  const int64_t recorded_step;  // TIDE_CHECKPOINT_STEP: of the newest checkpoint; 0 = unknown
  const std::optional<int64_t>
      resume_step;                  // TIDE_RESUME_STEP: to go back to; nullopt = the newest
  const int64_t resume_before;      // TIDE_RESUME_BEFORE: only those below it are good; 0 = all
  bool has_main = false;            // there is a Checkpoint of checkpoint_dir
  const std::string page_path;      // "": outside the platform
  const std::string scratch;        // TMPDIR on the platform: of this task alone; "": none
  const std::string native_folder;  // TIDE_NATIVE
  const std::string program_path;   // PATH

  [[nodiscard]] bool in_platform() const { return !page_path.empty(); }
  [[nodiscard]] Page& page() const { return page_; }
  [[nodiscard]] Reporter& reporter() { return reporter_; }

  // Publishes `step` finished steps. True: there is an order, which Decide() is for.
  bool Beat(int64_t step);

  // Publishes the loss of `step`, any number.
  void ShowLoss(int64_t step, double loss) {
    page_.loss.store(loss, std::memory_order_relaxed);
    if (std::isfinite(loss)) {
      page_.loss_step.store(step, std::memory_order_relaxed);
    } else {
      NoteBadLoss(step, loss);
    }
  }

  // Agrees with the other ranks on what to do after `step`, which may take the wait for them.
  [[nodiscard]] Settled Decide(int64_t step);

  // Leaves the time since the last tick (a save) out of the steps' duration.
  void RestartStepClock();

  // Notes the step a checkpoint was loaded at: a rehearsed suspension at or below it is over.
  void Resumed(int64_t step);

  void Acknowledge(const std::string& checkpoint_id, int64_t step);

 private:
  [[nodiscard]] static int64_t CoarseNanos() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  void Rehearse();
  // Notes the first one that is NaN or infinite.
  void NoteBadLoss(int64_t step, double loss);

  const MappedPage mapped_;
  Page& page_;
  Reporter reporter_;
  const std::optional<int64_t> rehearse_at_;
  int64_t grain_ns_ = 0;        // the coarse clock at the last change that a tick saw
  int64_t steps_in_grain_ = 0;  // ticks since then
};

// The coarse clock costs 3 ns, the exact one 20, of the 10 that a tick may cost. It moves every few
// milliseconds: enough for a heartbeat, and the duration of a step is a mean over what it moved.
// That the load of `order` comes after the store of `step`, both sequentially consistent, is what
// the agreement rests on: the store is a full fence, 5 ns.
inline bool RunCore::Beat(int64_t step) {
  const int64_t now = CoarseNanos();
  ++steps_in_grain_;
  if (now != grain_ns_) {
    page_.step_ns.store((now - grain_ns_) / steps_in_grain_, std::memory_order_relaxed);
    page_.heartbeat.store(now, std::memory_order_relaxed);
    grain_ns_ = now;
    steps_in_grain_ = 0;
  }
  page_.step.store(step, std::memory_order_seq_cst);
  return page_.order.load(std::memory_order_seq_cst) != kOrderNone;
}

}  // namespace tide::cpp
