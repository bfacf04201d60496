#include "agent/core/step_times.h"

#include <algorithm>
#include <vector>

namespace tide::agent {
namespace {

constexpr size_t kLast = 3;
constexpr size_t kManyLeast = 10;  // of which one in ten can be left out

// Returns the value that so many percent stay within, by nearest rank.
int64_t PercentileOf(std::vector<int64_t> values, size_t percent) {
  const size_t rank = (values.size() * percent + 99) / 100;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace

void StepTimes::Add(const RankView& view) {
  if (view.step == step_ || view.step_ns <= 0) {
    return;
  }
  step_ = view.step;
  seen_.push_back(view.step_ns);
  if (seen_.size() > kSeenMax) {
    seen_.pop_front();
  }
  if (view.compute_ns > 0) {
    computes_.push_back(view.compute_ns);
  }
  if (computes_.size() > kPaceOf) {
    computes_.pop_front();
  }
}

int64_t StepTimes::pace_ns() const {
  const auto last = static_cast<std::ptrdiff_t>(std::min(seen_.size(), kPaceOf));
  return last == 0 ? 0 : PercentileOf({seen_.end() - last, seen_.end()}, 50);
}

int64_t StepTimes::compute_ns() const {
  return computes_.empty() ? 0 : PercentileOf({computes_.begin(), computes_.end()}, 50);
}

int64_t StepTimes::usual_ns() const {
  if (seen_.empty()) {
    return 0;
  }
  if (seen_.size() < kLast) {
    return std::ranges::max(seen_);
  }
  const int64_t last = PercentileOf({seen_.end() - kLast, seen_.end()}, 50);
  return seen_.size() < kManyLeast ? last
                                   : std::max(last, PercentileOf({seen_.begin(), seen_.end()}, 90));
}

}  // namespace tide::agent
