#pragma once
// Which agents have been silent for too long. Counts from the scheduler's own start, and anew after
// it was stopped itself for a while: its own absence never declares anybody lost. Times are of
// CLOCK_MONOTONIC, so that a step of the system clock is no silence either.
//
// Threads: the loop thread only.

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

struct LivenessPolicy {
  Duration heartbeat = Duration::Seconds(1);
  Duration silent_after = Duration::Seconds(3);  // at least three beats
  Duration lost_after = Duration::Seconds(10);   // at least ten beats
};

class Liveness {
 public:
  Liveness(LivenessPolicy policy, int64_t started_ns);

  // Events for nodes whose silence began, grew too long, or ended. Call it every check_interval().
  //   last_heard_ns: by node; a node without an entry counts from the start.
  [[nodiscard]] std::vector<EventBody> Check(const ClusterState& state,
                                             const std::map<NodeId, int64_t>& last_heard_ns,
                                             int64_t now_ns);
  [[nodiscard]] static Duration check_interval() { return Duration::Millis(500); }

 private:
  LivenessPolicy policy_;
  int64_t counts_from_ns_;
  int64_t last_check_ns_;
};

}  // namespace tide
