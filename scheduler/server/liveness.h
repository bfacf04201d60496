#pragma once
// Which agents have been silent for too long. Counts from the scheduler's own start, so that a
// restart never declares anybody lost.

#include <map>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

struct LivenessPolicy {
  Duration heartbeat = Duration::Seconds(1);
  Duration silent_after = Duration::Seconds(3);  // three missed beats
  Duration lost_after = Duration::Seconds(10);
};

class Liveness {
 public:
  Liveness(LivenessPolicy policy, Instant started) : policy_(policy), started_(started) {}

  // Events for nodes whose silence began, grew too long, or ended.
  //   last_heard: by node; a node without an entry counts from the start.
  [[nodiscard]] std::vector<EventBody> Check(const ClusterState& state,
                                             const std::map<NodeId, Instant>& last_heard,
                                             Instant now) const;
  [[nodiscard]] Duration check_interval() const { return Duration::Millis(500); }

 private:
  LivenessPolicy policy_;
  Instant started_;
};

}  // namespace tide
