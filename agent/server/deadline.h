#pragma once
// Deadlines between machines: sent as the time that is left, because clocks differ by more than a
// notice may be long.

#include <algorithm>
#include <cstdint>

#include "common/base/time.h"

namespace tide::agent {

inline constexpr int64_t kLongestRemainingMs = 366LL * 86'400'000;

// What is left until `deadline` (Unix ns, by this machine's clock), at least 1.
[[nodiscard]] inline uint64_t RemainingMillis(int64_t deadline) {
  const int64_t left_ms = (deadline - SystemNow().unix_nanos()) / 1'000'000;
  return static_cast<uint64_t>(std::clamp<int64_t>(left_ms, 1, kLongestRemainingMs));
}

// A deadline of another machine as Unix ns by this machine's clock; `theirs` where it did not say
// what was left (0).
[[nodiscard]] inline int64_t LocalDeadline(int64_t theirs, uint64_t remaining_ms) {
  if (remaining_ms == 0) {
    return theirs;
  }
  const auto left = static_cast<int64_t>(std::min<uint64_t>(remaining_ms, kLongestRemainingMs));
  return SystemNow().unix_nanos() + left * 1'000'000;
}

}  // namespace tide::agent
