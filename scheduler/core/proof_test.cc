// The way back of nodes that automation took out of service, and what keeps them from it.

#include "scheduler/core/proof.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/builders.h"
#include "scheduler/core/testing/world.h"

namespace tide {
namespace {

using testing::Cluster;
using testing::World;

Cluster FourNodes() {
  return Cluster().Zone("A").Leaf(4);
}

const Incident& OnlyIncident(const World& world) {
  REQUIRE(world.state.incidents.size() == 1);
  return world.state.incidents.begin()->second;
}

}  // namespace

TEST_CASE("a node whose validators pass comes back by itself", "[proof]") {
  World world(FourNodes());
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(OnlyIncident(world).covers == std::vector<std::string>{"gpu-gemm", "gpu-memory", "links"});
  CHECK(OnlyIncident(world).repair == "reboot");
  world.Pass(Duration::Seconds(59));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  world.Pass(Duration::Seconds(2));
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(OnlyIncident(world).cleared_at.is_set());
  world.Pass(world.policy.probation);
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("a validator that cannot run proves nothing", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"gpu-gemm"};
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(24 * 60));
  const Node& node = world.state.nodes[0];
  CHECK(node.state == NodeState::kQuarantined);
  CHECK_THAT(node.reason,
             Catch::Contains("is not proven gone: gpu-gemm was skipped (not here)") &&
                 Catch::Contains("tide faults ack 1 --reason"));
  CHECK(node.validation_tries == kValidationTriesMax);  // tried once, and not again

  SECTION("until a person vouches for it") {
    const auto vouched = world.Do(IncidentVouched{IncidentId(1), "op", "GPU was replaced"});
    REQUIRE(vouched);
    CHECK(OnlyIncident(world).vouched_by == "op");
    world.Pass(Duration::Minutes(1));
    CHECK(world.NodeIs(0) == NodeState::kProbation);
    CHECK_FALSE(world.Do(IncidentVouched{IncidentId(1), "op", "again"}));
    CHECK_FALSE(world.Do(IncidentVouched{IncidentId(7), "op", "what?"}));
  }
  SECTION("until it comes back from a reboot with the validator") {
    world.agents.missing_validators.clear();
    NodeJoined join{NodeId(0), node.identity, {}};
    join.identity.boot_id = "another";
    world.Turn({join});
    world.Pass(Duration::Minutes(1));
    CHECK(world.NodeIs(0) == NodeState::kProbation);
  }
  SECTION("also when a person asks for the validation") {
    world.Validate(0);
    CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  }
}

TEST_CASE("validations that fail are tried later, and then left to people", "[proof]") {
  World world(FourNodes());
  world.agents.verdict = "fail";
  world.Xid(0, 48);
  world.Pass(Duration::Minutes(2));
  CHECK(world.state.nodes[0].validation_tries == 1);
  world.Pass(Duration::Minutes(8));
  CHECK(world.state.nodes[0].validation_tries == 1);
  world.Pass(Duration::Minutes(2));
  CHECK(world.state.nodes[0].validation_tries == 2);
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.state.nodes[0].validation_tries == 3);
  CHECK_THAT(world.state.nodes[0].reason, Catch::Contains("3 validations: repair it"));
  world.agents.verdict = "pass";
  world.Validate(0);
  CHECK(world.NodeIs(0) == NodeState::kProbation);
}

TEST_CASE("the fourth fault of a class within 30 days names the node for repair", "[proof]") {
  World world(FourNodes());
  const auto out_and_back = [&](int32_t code) {
    world.Xid(0, code);
    CHECK(world.NodeIs(0) == NodeState::kQuarantined);
    world.Pass(Duration::Minutes(24 * 60));
  };
  for (int i = 0; i < 3; ++i) {
    out_and_back(79);
    CHECK(world.NodeIs(0) == NodeState::kReady);
  }
  out_and_back(48);  // another class
  CHECK(world.NodeIs(0) == NodeState::kReady);
  out_and_back(79);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK_THAT(world.state.nodes[0].reason,
             Catch::Contains("came back from this 3 times within 30 days: repair it (reboot)"));
  world.Validate(0);  // a person has repaired it, and the count begins anew
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.state.nodes[0].returns.size() == 1);
}

TEST_CASE("faults that lie further apart than 30 days are no series", "[proof]") {
  World world(FourNodes());
  for (int i = 0; i < 6; ++i) {
    world.Xid(0, 79);
    world.Pass(Duration::Minutes(11 * 24 * 60));
    CHECK(world.NodeIs(0) == NodeState::kReady);
  }
}

TEST_CASE("an operator's hold is not ended by the way back", "[proof]") {
  World world(FourNodes());
  world.Drain(0);
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.state.nodes[0].actor == "op");
}

TEST_CASE("with return_after 0 nodes wait for people", "[proof]") {
  World world(FourNodes());
  world.policy.faults.return_after = Duration();
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a rule in shadow mode only records", "[proof]") {
  World world(FourNodes());
  const auto rules = health::FaultRulesFromText(
      "version: 1\nrules:\n"
      "  - { kind: xid, code: 79, meaning: off the bus, action: drain_now, shadow: true }\n",
      "site.yaml");
  REQUIRE(rules);
  world.policy.faults.rules = *rules;
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(OnlyIncident(world).action == FaultAction::kCount);
  CHECK(OnlyIncident(world).shadow == FaultAction::kDrainNow);
}

}  // namespace tide
