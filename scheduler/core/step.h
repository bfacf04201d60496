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
  Explanations explanations;
  Instant wake_at = Instant::Never();  // `now`: at once, since it has not come to rest
  bool at_rest = false;                // it decided, and the decision changed nothing
};

// Whether a step decides, or leaves that to one that follows soon: only applying what has come is
// far cheaper where many jobs wait. Nothing that a decision would tell is in the result then.
enum class Deciding {
  kNow,      // until a decision changes nothing
  kOneLook,  // the same, but a look at a long queue that changed something ends the step
  kLater,
};

// Applies `events`, decides if it is to, applies the decision, and derives the commands.
//   now: loop time; events without a time get it.
//   The same state and arguments give the same result, byte for byte.
[[nodiscard]] StepResult Step(ClusterState& state,
                              std::span<const Event> events,
                              const Policy& policy,
                              Instant now,
                              Deciding deciding = Deciding::kNow);

}  // namespace tide
