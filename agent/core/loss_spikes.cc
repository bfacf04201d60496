#include "agent/core/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tide::agent {
namespace {

constexpr double kSigmas = 6;
constexpr double kSigmaOfDeviation = 1.4826;  // of a normal distribution
// Losses that hardly differ make nothing of a small step: a sigma is at least so much of them.
constexpr double kSigmaLeast = 0.02;

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void LossSpikes::Add(int64_t step, double loss) {
  if (step == step_) {
    return;
  }
  step_ = step;
  if (seen_.size() >= kSeenLeast) {
    std::vector<double> values(seen_.begin(), seen_.end());
    const double median = MedianOf(values);
    for (double& value : values) {
      value = std::abs(value - median);
    }
    const double sigma =
        std::max(kSigmaOfDeviation * MedianOf(values), kSigmaLeast * std::abs(median));
    const bool up = loss - median > kSigmas * sigma;
    if (up && !is_up_) {
      newest_ = {step, loss, median};
    }
    is_up_ = up;
  }
  seen_.push_back(loss);
  if (seen_.size() > kSeenMax) {
    seen_.pop_front();
  }
}

}  // namespace tide::agent
