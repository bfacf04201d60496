#pragma once
// One turn of the scheduler: causes in; what to commit, what to send and what to tell out.

#include <span>
#include <vector>

#include "scheduler/core/apply.h"
#include "scheduler/core/commands.h"
#include "scheduler/core/decide.h"

namespace tide {

struct StepResult {
  std::vector<Result<Applied>> results;  // by input event
  std::vector<Event> log;                // every event that changed the state, in order
  ChangeSet changed;                     // rows to write
  std::vector<Command> commands;         // to send after the commit
  std::vector<Explanation> explanations;
  Instant wake_at = Instant::Never();
};

// Applies `events`, decides, applies the decision, and derives the commands.
//   now: loop time; events without a time get it.
//   The same state and arguments give the same result, byte for byte.
[[nodiscard]] StepResult Step(ClusterState& state,
                              std::span<const Event> events,
                              const Policy& policy,
                              Instant now);

}  // namespace tide
