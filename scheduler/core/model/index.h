#pragma once
// Sets and flags that say of every job and node what decisions ask of all of them, so that a pass
// opens only those it has something to do with. Apply keeps them, a load makes them anew.

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/core/model/state.h"

namespace tide {

// Of ClusterState::node_flags.
enum NodeFlag : uint8_t {
  kTakesWork = 1,   // as TakesWork has it
  kUnused = 2,      // carries no task, and nobody claims any of it
  kHasRoom = 4,     // some of it is taken or claimed, and no task has all of it
  kTimed = 8,       // time alone may change it
  kEvacuated = 16,  // a person drains it: what runs there is asked to leave, at jobs_leave_at
};

// The job or node has changed in a way that may show in an index. Claims are changes of nodes, too.
void TouchJob(ClusterState& state, JobId job);
void TouchNode(ClusterState& state, NodeId node);

// Brings the indexes up to date with what was touched. Cost: O(touched).
void RefreshIndexes(ClusterState& state);
// Which live jobs lie in more than one zone, after the fabric has changed. Cost: O(live tasks).
void IndexCrossing(ClusterState& state);
// From scratch, but for `crossing`. Cost: O(jobs + nodes).
//   jobs: all of the state.
void RebuildIndexes(ClusterState& state, const JobList& jobs);

// In words what an index has wrong, or nothing. Cost: O(jobs + nodes).
[[nodiscard]] std::optional<std::string> CheckIndexes(const ClusterState& state);

}  // namespace tide
