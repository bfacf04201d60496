#pragma once
// Numbers drawn from distributions, the same on every machine that has the same libm.

#include <cmath>
#include <cstdint>

#include "common/base/prng.h"

namespace tide::sim {

class Draw {
 public:
  explicit Draw(uint64_t seed) : prng_(seed) {}

  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) { return prng_.Below(bound); }
  // Uniform in (0, 1].
  double Uniform() {
    constexpr uint64_t kSteps = uint64_t{1} << 53U;
    return static_cast<double>(prng_.Below(kSteps) + 1) / static_cast<double>(kSteps);
  }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  // Lognormal: `sigma` is the standard deviation of the logarithm.
  double Lognormal(double median, double sigma) {
    constexpr double kTwoPi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return median * std::exp(sigma * radius * std::cos(kTwoPi * Uniform()));
  }

 private:
  Prng prng_;
};

}  // namespace tide::sim
