#include "scheduler/server/loop_clock.h"

#include <algorithm>
#include <ctime>

namespace tide {
namespace {

constexpr int64_t kSlew = 50;  // one part in

}  // namespace

Instant LoopClock::Read(Instant system, int64_t boot_ns) {
  const int64_t elapsed = std::max<int64_t>(0, boot_ns - boot_ns_);
  const int64_t behind = (system - now_).nanos() - elapsed;
  const int64_t most = elapsed / kSlew;
  now_ = now_ + Duration::Nanos(elapsed + std::clamp(behind, -most, most));
  boot_ns_ += elapsed;
  return now_;
}

int64_t BootNanos() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tide
