#pragma once
// When the scheduler last answered this node: a lease on all its tasks. A task of a gang needs a
// witness, too: another task of its gang that is known to be alive (docs/adr/0005).

#include <algorithm>
#include <cstdint>

namespace tide::agent {

struct Contact {
  int64_t heard_ns = 0;  // CLOCK_BOOTTIME; only comparable within one boot
  int64_t isolation_ms = 600'000;
  // Of a task of a gang: how long it goes on without the scheduler and without a witness; 0 = for
  // isolation_ms, as a task that is alone.
  int64_t witness_ms = 0;
  // When the newest question was sent to which another agent of the gang said that its task is
  // alive; 0 = none was. Not when it was answered: that may be long after.
  int64_t witnessed_ns = 0;

  // Without a scheduler no witness helps for longer than isolation_ms.
  [[nodiscard]] int64_t ExpiresNs() const {
    constexpr int64_t kNsPerMs = 1'000'000;
    const int64_t isolated = heard_ns + isolation_ms * kNsPerMs;
    const int64_t alone = std::max(heard_ns, witnessed_ns) + witness_ms * kNsPerMs;
    return witness_ms > 0 ? std::min(isolated, alone) : isolated;
  }
  [[nodiscard]] bool IsCutOff(int64_t now_ns) const { return now_ns >= ExpiresNs(); }
  bool operator==(const Contact&) const = default;
};

}  // namespace tide::agent
