#include "scheduler/core/loop_clock.h"

#include <algorithm>

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

}  // namespace tide
