#pragma once
// How long the steps of a rank take: what the next one may take follows from it. Pure.

#include <cstdint>
#include <deque>

#include "agent/core/rank_view.h"

namespace tide::agent {

// Steps of one rank as looks at its page found them, the last kSeenMax of them. A step that a hang
// held up is one among many and does not count; where steps become longer for good, it is known
// after two of them.
class StepTimes {
 public:
  static constexpr size_t kSeenMax = 32;
  static constexpr size_t kPaceOf = 9;

  // Takes what a look found; a step that was seen before counts once.
  void Add(const RankView& view);

  // Returns the time that nine of ten steps stay within, or the median of the last three if that is
  // more; of the first two the longer one; 0 = not known.
  [[nodiscard]] int64_t usual_ns() const;

  // Returns the median of the last kPaceOf steps, and of the times that the rank computed in them
  // before it had to wait for others; 0 = not known.
  [[nodiscard]] int64_t pace_ns() const;
  [[nodiscard]] int64_t compute_ns() const;

 private:
  int64_t step_ = -1;
  std::deque<int64_t> seen_;      // oldest first
  std::deque<int64_t> computes_;  // of those in which it said so, oldest first
};

}  // namespace tide::agent
