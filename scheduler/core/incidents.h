#pragma once
// What is done about faults: each by itself, unless so much breaks that taking it all out of
// service would do more harm than the faults.

#include "scheduler/core/decide.h"

namespace tide {

// Appends the judgement of every incident that is not decided yet, and lowers decision.wake_at to
// the next moment at which one of those that wait may go on.
//   - The circuit breaker: automation takes at most a share of the nodes out of service in a span
//     of time. What is beyond waits, and one incident tells people (Pages).
//   - Lost links of several nodes of one leaf switch are the switch's: nobody is taken out, and
//     one incident tells people. So a lost link waits a moment for others of its leaf.
//   Cost: O(undecided incidents), for lost links times the open ones of their leaf.
//   Source: design health.md section 2.
void JudgeIncidents(const ClusterState& state,
                    const Policy& policy,
                    Instant now,
                    Decision& decision);

}  // namespace tide
