#pragma once
// What a rank says of itself on its shared page (docs/rank-protocol.md section 1).

#include <cstdint>

#include "common/health/rank_check.h"

namespace tide::agent {

using health::RankPhase;

struct RankView {
  int64_t step = -1;
  RankPhase phase = RankPhase::kUnattached;
  int64_t saved_step = -1;
  int64_t total_steps = -1;
  double loss = 0;
  int64_t loss_step = 0;      // whose loss that is, if it is a number; 0 = not known
  int64_t bad_step = 0;       // the first step whose loss was NaN or infinite; 0 = none was
  bool bad_infinite = false;  // that one
  int64_t good_step = 0;      // the last step before it whose loss was a number; 0 = not known
  int64_t step_ns = 0;
  int64_t compute_ns = 0;     // of the last step, until it had to wait for others; 0 = not known
  bool acked = false;         // the newest order
  int64_t ticked_ns = 0;      // CLOCK_MONOTONIC of the last tick; 0 = none
  uint32_t failed_saves = 0;  // one after the other, since the last that was committed
  int32_t save_errno = 0;     // of the last of them; 0 = no error of the system
};

}  // namespace tide::agent
