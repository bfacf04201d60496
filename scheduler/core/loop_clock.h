#pragma once
// Loop time: the system clock, but steady. A step of the system clock would end every wait of the
// scheduler at once, also the wait for a lost node's tasks to be gone (core/timers.cc), which
// agents measure by a clock that does not step: a job would start elsewhere while it still runs.
//
// It starts at the system clock and counts real time, also while the machine sleeps. A difference
// is made up at no more than a 50th of the time that passes, well below Policy::isolation_margin.

#include <cstdint>

#include "common/base/time.h"

namespace tide {

class LoopClock {
 public:
  //   boot_ns: CLOCK_BOOTTIME.
  LoopClock(Instant system, int64_t boot_ns) : now_(system), boot_ns_(boot_ns) {}

  // Never less than at the last call.
  Instant Read(Instant system, int64_t boot_ns);

 private:
  Instant now_;
  int64_t boot_ns_;
};

}  // namespace tide
