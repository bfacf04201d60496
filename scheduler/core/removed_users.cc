#include "scheduler/core/removed_users.h"

#include <set>

namespace tide {

void CollectRemovedUsers(const ClusterState& state, const Policy& policy, Decision& decision) {
  if (policy.removed_users.empty()) {
    return;
  }
  std::set<JobId> held;  // by id: nothing is decided by the size of an owner's number
  for (const auto& [key, queue] : state.queue.queues()) {
    if (policy.removed_users.contains(state.owners.User(key.owner))) {
      for (const WaitingJob& job : queue.InOrder()) {
        held.insert(job.id);
      }
    }
  }
  for (const JobId id : held) {
    decision.proposals.emplace_back(
        HoldRequested{id, Instant(), "tide", "user " + state.jobs.at(id).user + " was removed"});
  }
}

}  // namespace tide
