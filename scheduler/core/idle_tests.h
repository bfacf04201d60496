#pragma once
// Tests of nodes that stand idle: every validator there is, once in a while, in time that no job
// wants. A test is no state of its node, which takes work as ever; a job that is placed there
// breaks it off: its agent kills it as it starts the task.
//
// Threads: the loop thread only.

#include <set>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// A test that was not heard of for so long is lost, and may be begun anew.
inline constexpr Duration kIdleTestMax = Duration::Minutes(60);

class IdleTestWatch {
 public:
  // Returns how often to look. A node is tested when two looks in a row found it idle: between two
  // jobs it is left alone.
  [[nodiscard]] static Duration check_interval() { return Duration::Seconds(15); }

  // Returns an event for each test that begins now: of the nodes that are due those that were
  // tested longest ago, and on a tenth of all nodes at most at one time.
  //   Cost: O(nodes).
  [[nodiscard]] std::vector<EventBody> Check(const ClusterState& state,
                                             const Policy& policy,
                                             Instant now);

 private:
  std::set<NodeId> idle_;  // at the last look, and due
};

// Reports whether a job could break off a test there: it may begin, and go on.
[[nodiscard]] bool MayTestIdle(const ClusterState& state, const Node& node);

}  // namespace tide
