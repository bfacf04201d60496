#pragma once
// The rank's side of agreeing on one step with all other ranks, without a collective. Judge is a
// pure function of what the page says; Settle adds the bounded wait. Why no rank passes an armed
// step unseen: docs/rank-protocol.md section 1.

#include <cstdint>
#include <functional>

#include "sdk/cpp/page.h"

namespace tide::cpp {

enum class Verdict {
  kGo,    // train on
  kWait,  // armed at or below this step: the coordinator must commit, raise or withdraw first
  kFire,  // committed: carry the order out at this step
  kStop,  // leave now, save nothing
};

// What a rank that has finished `step` steps does. A refused arming never fires here, not even when
// it is committed afterwards: this rank has trained past the step at which the others may stop.
[[nodiscard]] Verdict Judge(const PageOrders& orders,
                            int64_t step,
                            uint32_t ack_seq,
                            uint32_t refused_seq);

// How long a rank waits at an armed step for a silent coordinator, per arming, and by which clock.
struct Patience {
  int64_t wait_ns = 10'000'000'000;
  std::function<int64_t()> now_ns;      // nothing: CLOCK_MONOTONIC
  std::function<void(int64_t ns)> nap;  // nothing: sleeps
};

struct Settled {
  Verdict verdict = Verdict::kGo;
  PageOrders orders;
  bool waited = false;
};

// Publishes `step` and decides: kGo, kFire or kStop, and the order behind it.
[[nodiscard]] Settled Settle(Page& page, int64_t step, const Patience& patience = {});

}  // namespace tide::cpp
