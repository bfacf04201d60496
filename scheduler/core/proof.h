#pragma once
// The way back of a node that automation took out of service: what proves its faults gone, when it
// is tried, and when only a repair helps.

#include <string>
#include <vector>

#include "scheduler/core/model/command.h"
#include "scheduler/core/model/state.h"

namespace tide {

// A fault that comes back so often within so long is no chance: its part has to be replaced.
inline constexpr size_t kReturnsMax = 3;
inline constexpr Duration kReturnsKept = Duration::Minutes(30 * 24 * 60);

// Returns the validators that must pass before the node works again, sorted.
[[nodiscard]] std::vector<std::string> ProofWanted(const ClusterState& state, NodeId node);

// Returns the node's faults whose repair can be ordered of its agent: until it is begun, and once
// for each time that a fault begins, since a reboot must not follow a reboot.
[[nodiscard]] std::vector<IncidentId> RepairsWanted(const ClusterState& state, NodeId node);
// Returns the repairs that were ordered of the node at `at`.
[[nodiscard]] Repairs RepairsOrdered(const ClusterState& state, NodeId node, Instant at);

// Reports whether an idle test failed there: a short one may not find it again.
[[nodiscard]] bool FailedItsTest(const ClusterState& state, NodeId node);

// Returns which faults of the node `verdicts` leave unproven, what is missing, and what a person
// can do; "" = all of them are gone.
[[nodiscard]] std::string MissingProof(const ClusterState& state,
                                       const Node& node,
                                       const std::vector<Verdict>& verdicts);

// Reports whether a fault was seen on the node after `since` that needs proof: what was ordered
// before does not cover it.
[[nodiscard]] bool BrokeSince(const ClusterState& state, NodeId node, Instant since);

// Reports whether a validation may start on it now.
[[nodiscard]] bool IsFreeForValidation(const ClusterState& state, const Node& node);
// Returns how long after its last change of state the next validation is tried.
//   first: Policy::faults.return_after
[[nodiscard]] Duration WaitForTry(const Node& node, Duration first);

// Notes that the node comes back from its open faults.
void NoteReturns(const ClusterState& state, Node& node, Instant at);
// Reports whether the node has come back from such a fault too often lately.
[[nodiscard]] bool NeedsRepair(const Node& node, const Incident& incident, Instant at);

}  // namespace tide
