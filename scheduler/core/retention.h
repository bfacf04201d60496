#pragma once
// Which finished jobs go to the archive, and when: the oldest, once they have been kept for as long
// as the policy says or there are more than it wants. Never one that a waiting job asks for, or a
// part of an array that has not ended (model/finished.h). And which incidents are forgotten: those
// that have been over for as long as the policy keeps them; never one that is open.

#include <optional>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

inline constexpr size_t kArchivedAtOnceMax = 256;

// What this step archives, if anything; none of the jobs that it has changed.
//   Cost: O(kArchivedAtOnceMax).
[[nodiscard]] std::optional<JobsArchived> ProposeArchiving(const ClusterState& state,
                                                           const Policy& policy,
                                                           Instant now);

// When there is something to archive, seen after that of `now`.
[[nodiscard]] Instant ArchivingDueAt(const ClusterState& state, const Policy& policy, Instant now);

inline constexpr size_t kForgottenAtOnceMax = 256;

// Returns what this step forgets, if anything.   Cost: O(kForgottenAtOnceMax).
[[nodiscard]] std::optional<IncidentsForgotten> ProposeForgetting(const ClusterState& state,
                                                                  const Policy& policy,
                                                                  Instant now);

// Returns when there is something to forget, seen after that of `now`.
[[nodiscard]] Instant ForgettingDueAt(const ClusterState& state, const Policy& policy, Instant now);

}  // namespace tide
