#pragma once
// Jobs of users who were removed: their tasks would have no account to run as.

#include "scheduler/core/decide.h"

namespace tide {

// Adds a hold for every waiting job of such a user: what runs goes on to its end or its next stop.
//   Cost: none where nobody was removed, else O(owners and classes of waiting jobs), and the jobs
//   that are held.
void CollectRemovedUsers(const ClusterState& state, const Policy& policy, Decision& decision);

}  // namespace tide
