#pragma once
// When the scheduler last answered, kept over restarts of the agent: one that was cut off, and then
// restarted, still knows for how long.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

struct Contact {
  int64_t heard_ns = 0;  // BootNanos(); only comparable within one boot
  int64_t isolation_ms = 600'000;

  [[nodiscard]] bool IsCutOff(int64_t now_ns) const {
    return now_ns - heard_ns >= isolation_ms * 1'000'000;
  }
};

// CLOCK_BOOTTIME: goes on while the machine sleeps, and does not follow the system clock.
[[nodiscard]] int64_t BootNanos();

// What an earlier agent wrote since the machine started; else now.
[[nodiscard]] Contact ReadContact(const std::string& path, int64_t now_ns);
[[nodiscard]] Status WriteContact(const std::string& path, const Contact& contact);

}  // namespace tide::agent
