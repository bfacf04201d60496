#include "scheduler/core/evacuation.h"

#include <algorithm>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/leaving.h"

namespace tide {

void EvacuateDrainingNodes(const ClusterState& state,
                           const Policy& policy,
                           Instant now,
                           std::set<JobId>& asked,
                           Decision& decision) {
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    if ((state.node_flags[i] & kEvacuated) == 0) {
      continue;
    }
    const Node& node = state.nodes[i];
    if (node.jobs_leave_at > now) {
      decision.wake_at = std::min(decision.wake_at, node.jobs_leave_at);
      continue;
    }
    for (const Occupant& occupant : state.uses[i].tasks) {
      const Job& job = state.jobs.at(occupant.job);
      if (!IsLeaving(job) && asked.insert(job.id).second) {
        decision.proposals.emplace_back(
            SuspendRequested{job.id,
                             StopCause::kDrained,
                             JobId(),
                             now + NoticeOf(job, policy),
                             node.identity.name + " is being drained: " + node.reason});
      }
    }
  }
}

}  // namespace tide
