#pragma once
// The sentences behind `tide why`: every code of the closed list, with its numbers.

#include <vector>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/policy/placement.h"

namespace tide {

[[nodiscard]] std::vector<Reason> ReasonHeld(const Job& job);
[[nodiscard]] std::vector<Reason> ReasonBackoff(Duration left);
[[nodiscard]] std::vector<Reason> ReasonYielded(JobId beneficiary);
[[nodiscard]] std::vector<Reason> ReasonAhead(JobId ahead);
[[nodiscard]] std::vector<Reason> ReasonClaim(const ClusterState& state, const Claim& claim);
[[nodiscard]] std::vector<Reason> ReasonNoRoom(const ClusterState& state,
                                               const Job& job,
                                               const Unplaced& unplaced);

}  // namespace tide
