#pragma once
// Which node events are legal in which state (jobs.md section 1), folded at compile time.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/core/model/node.h"

namespace tide {

enum class NodeEvent : uint8_t {
  kAdmitted,  // joined; no validation asked for
  kHeard,     // its agent is connected (again)
  kSilent,    // missed beats
  kLost,      // missed more
  kDrainRequested,
  kEmptied,  // a draining node carries no task any more
  kUndrainRequested,
  kRemoveRequested,
  kBroken,  // a fault that takes it out at once
  kValidationRequested,
  kValidationPassed,
  kValidationPassedAfterFault,
  kValidationPassedWhileHeld,  // an operator's hold always wins
  kValidationFailed,
  kProbationOver,
  kHeardOnProbation,      // connected again after a silence in its probation
  kUndrainedOnProbation,  // what was left of one when it was drained, or a fault that was proven
                          // gone
  kUndrainedWhileLost,    // its agent does not answer
};
inline constexpr int kNodeEventCount = 18;

struct NodeTransition {
  NodeState from;
  NodeEvent event;
  NodeState to;
};

inline constexpr auto kNodeTransitions = std::to_array<NodeTransition>({
    {NodeState::kJoining, NodeEvent::kAdmitted, NodeState::kReady},
    {NodeState::kJoining, NodeEvent::kValidationRequested, NodeState::kValidating},
    {NodeState::kJoining, NodeEvent::kBroken, NodeState::kQuarantined},

    {NodeState::kReady, NodeEvent::kSilent, NodeState::kSuspect},
    {NodeState::kReady, NodeEvent::kDrainRequested, NodeState::kDraining},
    {NodeState::kReady, NodeEvent::kBroken, NodeState::kQuarantined},
    {NodeState::kReady, NodeEvent::kValidationRequested, NodeState::kValidating},

    {NodeState::kSuspect, NodeEvent::kHeard, NodeState::kReady},
    {NodeState::kSuspect, NodeEvent::kHeardOnProbation, NodeState::kProbation},
    {NodeState::kSuspect, NodeEvent::kLost, NodeState::kLost},
    {NodeState::kSuspect, NodeEvent::kDrainRequested, NodeState::kDraining},
    {NodeState::kSuspect, NodeEvent::kBroken, NodeState::kQuarantined},

    {NodeState::kLost, NodeEvent::kHeard, NodeState::kReady},
    {NodeState::kLost, NodeEvent::kHeardOnProbation, NodeState::kProbation},
    {NodeState::kLost, NodeEvent::kDrainRequested, NodeState::kDraining},
    {NodeState::kLost, NodeEvent::kBroken, NodeState::kQuarantined},

    {NodeState::kDraining, NodeEvent::kEmptied, NodeState::kDrained},
    {NodeState::kDraining, NodeEvent::kUndrainRequested, NodeState::kReady},
    {NodeState::kDraining, NodeEvent::kUndrainedOnProbation, NodeState::kProbation},
    {NodeState::kDraining, NodeEvent::kUndrainedWhileLost, NodeState::kLost},
    {NodeState::kDraining, NodeEvent::kBroken, NodeState::kQuarantined},

    {NodeState::kDrained, NodeEvent::kUndrainRequested, NodeState::kReady},
    {NodeState::kDrained, NodeEvent::kUndrainedOnProbation, NodeState::kProbation},
    {NodeState::kDrained, NodeEvent::kUndrainedWhileLost, NodeState::kLost},
    {NodeState::kDrained, NodeEvent::kValidationRequested, NodeState::kValidating},
    {NodeState::kDrained, NodeEvent::kBroken, NodeState::kQuarantined},

    // Broken nodes come back through a validation only.
    {NodeState::kQuarantined, NodeEvent::kValidationRequested, NodeState::kValidating},
    {NodeState::kQuarantined, NodeEvent::kBroken, NodeState::kQuarantined},
    // An operator's hold on top: a passed validation leads to Drained, not back to work.
    {NodeState::kQuarantined, NodeEvent::kDrainRequested, NodeState::kQuarantined},

    {NodeState::kValidating, NodeEvent::kValidationPassed, NodeState::kReady},
    {NodeState::kValidating, NodeEvent::kValidationPassedAfterFault, NodeState::kProbation},
    {NodeState::kValidating, NodeEvent::kValidationPassedWhileHeld, NodeState::kDrained},
    {NodeState::kValidating, NodeEvent::kValidationFailed, NodeState::kQuarantined},
    {NodeState::kValidating, NodeEvent::kBroken, NodeState::kQuarantined},
    {NodeState::kValidating, NodeEvent::kLost, NodeState::kQuarantined},

    // Those that a machine which is gone for good may be in.
    {NodeState::kLost, NodeEvent::kRemoveRequested, NodeState::kRemoved},
    {NodeState::kDrained, NodeEvent::kRemoveRequested, NodeState::kRemoved},
    {NodeState::kQuarantined, NodeEvent::kRemoveRequested, NodeState::kRemoved},
    {NodeState::kRemoved, NodeEvent::kAdmitted, NodeState::kReady},

    {NodeState::kProbation, NodeEvent::kProbationOver, NodeState::kReady},
    {NodeState::kProbation, NodeEvent::kSilent, NodeState::kSuspect},
    {NodeState::kProbation, NodeEvent::kDrainRequested, NodeState::kDraining},
    {NodeState::kProbation, NodeEvent::kBroken, NodeState::kQuarantined},
    {NodeState::kProbation, NodeEvent::kValidationRequested, NodeState::kValidating},
});

[[nodiscard]] constexpr std::optional<NodeState> NextNodeState(NodeState from, NodeEvent event) {
  for (const NodeTransition& row : kNodeTransitions) {
    if (row.from == from && row.event == event) {
      return row.to;
    }
  }
  return std::nullopt;
}

namespace node_fsm_checks {

constexpr bool NoDuplicates() {
  for (size_t i = 0; i < kNodeTransitions.size(); ++i) {
    for (size_t j = i + 1; j < kNodeTransitions.size(); ++j) {
      if (kNodeTransitions[i].from == kNodeTransitions[j].from &&
          kNodeTransitions[i].event == kNodeTransitions[j].event) {
        return false;
      }
    }
  }
  return true;
}

// Every state can be left, entered, and leads back to Ready: no node is out of service for ever.
constexpr bool LeadsToReady(NodeState start) {
  std::array<bool, kNodeStateCount> seen{};
  seen[static_cast<size_t>(start)] = true;
  for (int round = 0; round < kNodeStateCount; ++round) {
    for (const NodeTransition& row : kNodeTransitions) {
      if (seen[static_cast<size_t>(row.from)]) {
        seen[static_cast<size_t>(row.to)] = true;
      }
    }
  }
  return seen[static_cast<size_t>(NodeState::kReady)];
}

constexpr bool EveryStateIsSound() {
  for (int i = 0; i < kNodeStateCount; ++i) {
    const auto state = static_cast<NodeState>(i);
    const bool breaks =
        NextNodeState(state, NodeEvent::kBroken).has_value() || state == NodeState::kRemoved;
    if (!LeadsToReady(state) || !breaks) {
      return false;
    }
  }
  return true;
}

}  // namespace node_fsm_checks

static_assert(node_fsm_checks::NoDuplicates(), "one row per state and event");
static_assert(node_fsm_checks::EveryStateIsSound(),
              "from every state a node can break, and can become Ready again");

}  // namespace tide
