#pragma once
// Which fault came of which, and whether a device or the jobs on it are to blame.

#include <vector>

#include "common/health/fault_rules.h"
#include "scheduler/core/model/state.h"

namespace tide {

// Faults of one device within so long of each other have one cause.
inline constexpr Duration kOneCauseWithin = Duration::Minutes(1);
// Time for which it counts what jobs met on a device.
inline constexpr Duration kSightingsCount = Duration::Minutes(24 * 60);

// Returns the open fault that the incident came of, the likeliest one by the rules; 0 = none.
[[nodiscard]] IncidentId CauseOf(const ClusterState& state,
                                 const health::FaultRules& rules,
                                 const Incident& incident);

// Returns the decided faults that came of the incident and do not say so yet.
[[nodiscard]] std::vector<IncidentId> ConsequencesOf(const ClusterState& state,
                                                     const health::FaultRules& rules,
                                                     const Incident& incident);

// Reports whether jobs of two users met the fault lately. A job that met it on other devices, too,
// does not count: it took its own mistake along.
//   Cost: O(open incidents), where two users did.
[[nodiscard]] bool HurtsTwoUsers(const ClusterState& state, const Incident& incident, Instant now);

}  // namespace tide
