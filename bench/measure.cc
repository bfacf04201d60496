#include "bench/measure.h"

#include <time.h>

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace tide::bench {
namespace {

constexpr double kNanosPerMs = 1e6;

}  // namespace

int64_t ReadNanos(Clock clock) {
  timespec now{};
  const int read =
      clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  TIDE_CHECK(read == 0, "Linux has both clocks");
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double Samples::PercentileMs(int percent) const {
  TIDE_CHECK(!nanos_.empty(), "a percentile needs a sample");
  TIDE_CHECK(percent > 0 && percent <= 100, "a percentile lies above 0 and up to 100");
  std::vector<int64_t> sorted = nanos_;
  std::sort(sorted.begin(), sorted.end());
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return static_cast<double>(sorted[rank - 1]) / kNanosPerMs;
}

double Samples::SumMs() const {
  return static_cast<double>(std::accumulate(nanos_.begin(), nanos_.end(), int64_t{0})) /
         kNanosPerMs;
}

}  // namespace tide::bench
