#pragma once
// When the loss of a rank stands out from those before it. Pure.

#include <cstdint>
#include <deque>

namespace tide::agent {

struct LossSpike {
  int64_t step = 0;  // 0 = there was none
  double loss = 0;
  double median = 0;  // of the losses before it
  bool operator==(const LossSpike&) const = default;
};

// The last kSeenMax losses of one rank as looks at its page found them. One that lies more than six
// robust standard deviations (by the median of the deviations) above their median is a spike. While
// the loss stays up there is no other; where it stays for long, that is what losses are.
class LossSpikes {
 public:
  static constexpr size_t kSeenMax = 200;
  static constexpr size_t kSeenLeast = 30;  // before one can stand out

  // Takes what a look found; a step that was seen before counts once.
  //   loss: a finite number.   Cost: O(kSeenMax).
  void Add(int64_t step, double loss);

  // Returns the newest one.
  [[nodiscard]] const LossSpike& newest() const { return newest_; }

 private:
  int64_t step_ = 0;
  bool is_up_ = false;
  std::deque<double> seen_;  // oldest first
  LossSpike newest_;
};

}  // namespace tide::agent
