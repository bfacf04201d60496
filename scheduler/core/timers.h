#pragma once
// What is due because time passed.

#include "scheduler/core/decide.h"

namespace tide {

// How much later than a task's agent should have, the scheduler gives up its start by itself.
inline constexpr Duration kStartSlack = Duration::Seconds(30);

// Appends events that are due at `now` to decision.proposals and lowers decision.wake_at to the
// next moment at which something would be.
void CollectDue(const ClusterState& state, const Policy& policy, Instant now, Decision& decision);

}  // namespace tide
