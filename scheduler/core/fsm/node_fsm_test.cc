#include "scheduler/core/fsm/node_fsm.h"

#include <array>
#include <catch2/catch.hpp>

namespace tide {
namespace {

// Columns:
//   Admitted, Heard, Silent, Lost, Drain, Emptied, Undrain, Remove, Broken, ValidationRequested,
//   Passed, PassedAfterFault, PassedWhileHeld, Failed, ProbationOver, HeardOnProbation,
//   UndrainedOnProbation, UndrainedWhileLost.
// J joining, V validating, R ready, S suspect, L lost, D draining, X drained, Q quarantined,
// P probation, G removed (gone), . illegal.
constexpr std::string_view kNodeLetters = "JVRSLDXQPG";
constexpr std::array<std::string_view, kNodeStateCount> kNodeExpected = {
    "R.......QV........",  // joining
    "...Q....Q.RPXQ....",  // validating
    "..S.D...QV........",  // ready
    ".R.LD...Q......P..",  // suspect
    ".R..D..GQ......P..",  // lost
    ".....XR.Q.......PL",  // draining
    "......RGQV......PL",  // drained
    "....Q..GQV........",  // quarantined
    "..S.D...QV....R...",  // probation
    "R.................",  // removed
};

}  // namespace

TEST_CASE("every node state and event pair leads where the design says") {
  for (int from = 0; from < kNodeStateCount; ++from) {
    const std::string_view row = kNodeExpected.at(static_cast<size_t>(from));
    REQUIRE(row.size() == kNodeEventCount);
    for (int event = 0; event < kNodeEventCount; ++event) {
      const char letter = row[static_cast<size_t>(event)];
      INFO(NodeStateName(static_cast<NodeState>(from)) << " + event " << event);
      const auto next = NextNodeState(static_cast<NodeState>(from), static_cast<NodeEvent>(event));
      REQUIRE(next.has_value() == (letter != '.'));
      if (next) {
        CHECK(kNodeLetters[static_cast<size_t>(*next)] == letter);
      }
    }
  }
}

TEST_CASE("only ready nodes and nodes on probation that can be reached take work") {
  for (int state = 0; state < kNodeStateCount; ++state) {
    Node node;
    node.state = static_cast<NodeState>(state);
    CHECK(TakesWork(node) ==
          (node.state == NodeState::kReady || node.state == NodeState::kProbation));
    node.lost_at = Instant::FromUnixNanos(1);
    CHECK_FALSE(TakesWork(node));
  }
}

}  // namespace tide
