#pragma once
// The numbers of scheduling policy. Durations are loop time.

#include <map>
#include <string>

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

  // Time-sharing inside a class (scheduling.md section 3).
  Duration share_half_life = Duration::Minutes(60);
  Duration minimum_run = Duration::Minutes(15);        // safe from one's own class
  Duration opportunistic_run = Duration::Minutes(60);  // the same for who started out of order
  int64_t preemption_tax = 100;  // a slice is at least this many times the cost of a suspension
  Duration assumed_cost = Duration::Seconds(60);  // of a suspension, until one was measured
  // A waiting owner may take from one whose use is at least this many times its own, with what it
  // is about to use counted in.
  int64_t share_margin = 2;
  Duration review = Duration::Seconds(60);  // how often waiting and running are compared again
  std::map<std::string, int64_t> project_weights;  // 1 where none is given
};

}  // namespace tide
