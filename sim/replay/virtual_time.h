#pragma once
// Milliseconds from the start of the trace, and the scheduler's instants.

#include <cstdint>

#include "common/base/time.h"

namespace tide::sim {

inline constexpr int64_t kNeverMs = INT64_MAX;
// Unix time of the trace's start: an instant of zero would mean "not set".
inline constexpr int64_t kEpochMs = 1'000'000'000'000;
inline constexpr int64_t kNanosPerMs = 1'000'000;

[[nodiscard]] constexpr Instant At(int64_t ms) {
  return Instant::FromUnixNanos((kEpochMs + ms) * kNanosPerMs);
}

// Rounded up: a timer looked at before its time would spin.
[[nodiscard]] constexpr int64_t ToMs(Instant at) {
  return at == Instant::Never() ? kNeverMs
                                : (at.unix_nanos() + kNanosPerMs - 1) / kNanosPerMs - kEpochMs;
}

}  // namespace tide::sim
