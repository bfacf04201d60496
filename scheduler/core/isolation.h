#pragma once
// When what ran on a lost node has ended for certain, wherever the node is (docs/adr/0005). Its
// agent, or the tasks' supervisors in its place, end them by these rules:
//  - a task that is alone: the isolation timeout after the scheduler was last heard, as the last
//    one that welcomed its agent said it.
//  - a task of a gang: `witness_timeout` after that, or after the last question to which another
//    task's agent said that this task is alive; and never later than a task that is alone.
// A task that is proven gone is not alive to anybody any more. So once all others of its attempt
// are, the lease of the last one cannot be renewed, and ends within `witness_timeout`.

#include <cstdint>
#include <optional>

#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// What a node that joins is believed to keep to: the longer of what its agent says that it keeps
// to now, and of what it is told to with Welcome. 0 = it does not, or need not.
//   said_ms: Hello.witness_timeout_ms.
[[nodiscard]] Duration WitnessTimeoutOf(std::optional<int64_t> said_ms, const Policy& policy);

// The same of the time without the scheduler.
//   said_ms: Hello.isolation_timeout_ms; nothing = an older agent: it is taken at this one's word.
[[nodiscard]] Duration IsolationTimeoutOf(std::optional<int64_t> said_ms, const Policy& policy);

// Whether the agent that `last` tells of may still run what it held, though `comer` has its name
// now. One with another state folder or machine is news of a lost node: it knows nothing of those
// tasks, so what it does not hold proves nothing. The same machine, started anew, does.
[[nodiscard]] bool MayRunBeside(const NodeIdentity& last, const NodeIdentity& comer);

// Errors: kConflict: the last agent of that name may still run tasks. They are known to be gone
// when it says so, or when the node was lost for long enough (NodeIsolated).
[[nodiscard]] Status CheckMayJoin(const ClusterState& state, const NodeIdentity& comer);

// From when on nothing of `node`, which is lost, runs any more; the margin is in it.
// Cost: O(tasks of the gangs there).
[[nodiscard]] Instant IsolatedAt(const ClusterState& state, const Node& node, const Policy& policy);

}  // namespace tide
