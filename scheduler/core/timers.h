#pragma once
// What is due because time passed.

#include "scheduler/core/decide.h"

namespace tide {

// Appends events that are due at `now` to decision.proposals and lowers decision.wake_at to the
// next moment at which something would be.
void CollectDue(const ClusterState& state, const Policy& policy, Instant now, Decision& decision);

}  // namespace tide
