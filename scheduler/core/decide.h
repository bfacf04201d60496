#pragma once
// What should happen next. Reads the state, changes nothing; its proposals are events that Step
// applies and logs like any other cause.

#include <string>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// Why a job waits. `code` is from the closed list of docs/guide/reasons.md.
struct Reason {
  std::string code;
  std::string message;
  std::string remedy;  // the nearest change that would start it; may be empty
  bool operator==(const Reason&) const = default;
};

struct Explanation {
  JobId job;
  std::vector<Reason> reasons;
  bool operator==(const Explanation&) const = default;
};

struct Decision {
  std::vector<EventBody> proposals;
  std::vector<Explanation> explanations;  // one for every waiting job
  Instant wake_at = Instant::Never();     // when time alone would change the decision
};

// Order: higher class first, then first come. A waiting job takes free nodes; else nodes of lower
// classes, as a transaction: its nodes are claimed and the victims asked in one step.
//   Cost: O(waiting × nodes) here; bounded by counts, never by elapsed time.
//   Source: design scheduling.md sections 2 and 3.
[[nodiscard]] Decision Decide(const ClusterState& state, const Policy& policy, Instant now);

}  // namespace tide
