#pragma once
// One waiting job in a few words, as decisions read it.

#include <cstdint>
#include <tuple>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "scheduler/core/model/slowdown.h"

namespace tide {

struct WaitingJob {
  JobId id;
  Instant since;
  int64_t rank = 0;    // Job::queue_rank
  uint32_t shape = 0;  // of JobShapes
  // Nothing is special about it: no claim, no back-off, no one it waits for, no failure behind it.
  // Two plain jobs of one owner, class and shape have the same answer.
  bool plain = false;
  bool has_run = false;
  bool after_fault = false;  // one ended its last attempt
  Slowdown slowdown;
  bool operator==(const WaitingJob&) const = default;
};

// In the order of their owner: as the owner has moved them, then first come (user_order.h).
[[nodiscard]] inline bool ComesBefore(const WaitingJob& a, const WaitingJob& b) {
  return std::tuple(a.rank, a.id) < std::tuple(b.rank, b.id);
}

// Jobs for which an answer holds that one of their owner and shape was given: they wait for no
// longer, and waiting slowed them down no more.
struct AnswerReach {
  Instant first_since;   // since then at the earliest they wait
  Instant last_since;    // and at the latest
  int64_t slowdown = 0;  // Slowdown::At of none is more
  Instant now;           // for Slowdown::At, as the next
  Duration minimum_run;
};

}  // namespace tide
