#pragma once
// When the scheduler last answered this node: a lease on all its tasks.

#include <cstdint>

namespace tide::agent {

struct Contact {
  int64_t heard_ns = 0;  // CLOCK_BOOTTIME; only comparable within one boot
  int64_t isolation_ms = 600'000;

  [[nodiscard]] int64_t ExpiresNs() const { return heard_ns + isolation_ms * 1'000'000; }
  [[nodiscard]] bool IsCutOff(int64_t now_ns) const { return now_ns >= ExpiresNs(); }
};

}  // namespace tide::agent
