#pragma once
// What agents are owed. Derived from the state, so that no queue of effects needs to be durable:
// after a restart the same commands come out again. All are idempotent; the epoch fences.

#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/model/command.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// Everything owed for one job, or for one node.
void AppendForJob(const ClusterState& state,
                  const Policy& policy,
                  const Job& job,
                  std::vector<Command>& out);
void AppendForNode(const ClusterState& state,
                   const Policy& policy,
                   const Node& node,
                   std::vector<Command>& out);

// Everything owed to anybody. Cost: O(live tasks + nodes).
[[nodiscard]] std::vector<Command> Outstanding(const ClusterState& state, const Policy& policy);

// Is what was reported the task that the state believes to be live there?
[[nodiscard]] bool IsBelieved(const ClusterState& state, const TaskReported& report);

// The answer to a report: stop what should not be there, forget what is settled.
[[nodiscard]] std::optional<Command> ReplyTo(const ClusterState& state, const TaskReported& report);

}  // namespace tide
