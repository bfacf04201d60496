#pragma once
// The numbers of scheduling policy. Durations are loop time.

#include "common/base/time.h"

namespace tide {

struct Policy {
  Duration stop_grace = Duration::Seconds(10);     // SIGTERM to SIGKILL
  Duration fault_grace = Duration::Seconds(5);     // for survivors of a fault
  Duration evidence_wait = Duration::Seconds(2);   // for a fault that explains a failure
  Duration start_timeout = Duration::Minutes(10);  // Starting must become Running
  Duration leave_grace = Duration::Minutes(2);     // first task saved and left, to the last one
  Duration suspend_notice_max = Duration::Minutes(10);
  Duration probation = Duration::Minutes(30);
  Duration isolation_timeout = Duration::Minutes(10);  // agents stop their tasks when cut off
  Duration isolation_margin = Duration::Seconds(30);   // the scheduler waits this much longer
  uint32_t cross_zone_jobs_max = 1;
};

}  // namespace tide
