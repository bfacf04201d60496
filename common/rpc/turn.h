#pragma once
// Turns that come no more often than so.

#include <atomic>
#include <cstdint>

#include "common/base/time.h"

namespace tide::rpc {

// Has the time come that `at` holds (CLOCK_MONOTONIC, ns)? True for one of all that ask then, and
// for the next after `every`.
inline bool IsTurn(std::atomic<int64_t>& at, Duration every) {
  const int64_t now = MonotonicNanos();
  int64_t due = at.load(std::memory_order_relaxed);
  return now >= due && at.compare_exchange_strong(due, now + every.nanos());
}

}  // namespace tide::rpc
