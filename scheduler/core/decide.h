#pragma once
// What should happen next. Reads the state, changes nothing; its proposals are events that Step
// applies and logs like any other cause.

#include <string>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/explanations.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

struct Decision {
  std::vector<EventBody> proposals;
  Explanations explanations;           // of every waiting job, if it looked at them
  Instant wake_at = Instant::Never();  // when time alone would change the decision
  bool looked = false;   // at the waiting jobs; else it proposes what is due, and is asked again
  bool goes_on = false;  // more jobs may ask for nodes in the next one
};

// Order: higher class first, then down the tree of projects who used least, then by the user's own
// order and first come. Who is
// over its quota is passed over. A waiting job takes free nodes; else nodes that policy/runners.h
// lets it have, as a transaction: its nodes are claimed and the victims asked in one step.
//   state: its fabric is fresh (RefreshFabric).
//   Cost: O(nodes + live + owners × shapes of their jobs + waiting jobs that are special + one in
//   sixty of those that have run), with a search for nodes, and one for victims, for each different
//   wish that cannot be granted; bounded by counts, never by elapsed time.
//   Source: design scheduling.md sections 2 and 3.
[[nodiscard]] Decision Decide(const ClusterState& state, const Policy& policy, Instant now);

}  // namespace tide
