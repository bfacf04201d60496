#pragma once
// Spans of tide-init and the supervisor: orders name milliseconds, the monotonic clock nanoseconds.

#include <algorithm>
#include <cstdint>

#include "common/base/time.h"

namespace tide::agent {

inline constexpr int64_t kNanosPerMilli = 1'000'000;

// The moment `millis` from now, by MonotonicNanos(); a day at most.
[[nodiscard]] inline int64_t After(int64_t millis) {
  return MonotonicNanos() + std::clamp<int64_t>(millis, 0, 86'400'000) * kNanosPerMilli;
}

}  // namespace tide::agent
