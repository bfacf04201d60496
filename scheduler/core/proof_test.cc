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

TEST_CASE("a repair is ordered with the first validation, and once", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"links"};
  world.Xid(0, 79);
  CHECK_FALSE(OnlyIncident(world).repair_at.is_set());
  world.Pass(Duration::Minutes(1));
  const auto ordered = std::vector<std::pair<NodeId, Repairs>>{
      {NodeId(0), {{"reboot", {OnlyIncident(world).device}}}}};
  CHECK(world.agents.repairs == ordered);
  CHECK(OnlyIncident(world).repair_at.is_set());
  REQUIRE(world.NodeIs(0) == NodeState::kQuarantined);

  SECTION("a node that was rebooted is validated and not rebooted again") {
    world.agents.missing_validators = {};
    NodeJoined join{NodeId(0), world.state.nodes[0].identity, {}};
    join.identity.boot_id = "another";
    world.Turn({join});
    world.Pass(Duration::Minutes(2));
    CHECK(world.NodeIs(0) == NodeState::kProbation);
    CHECK(world.agents.repairs == ordered);

    world.Xid(0, 79);  // again, after it was back
    world.Pass(Duration::Minutes(2));
    CHECK(world.agents.repairs.size() == 2);
  }
  SECTION("a person who validates it has other means") {
    world.Pass(Duration::Seconds(1));
    world.Validate(0);
    CHECK(world.agents.repairs == ordered);
  }
}

TEST_CASE("a person's validation orders no repair", "[proof]") {
  World world(FourNodes());
  world.Xid(0, 79);
  world.Validate(0);
  CHECK(world.agents.repairs.empty());
}

TEST_CASE("a repair that its agent did not begin is ordered again with each later try", "[proof]") {
  World world(FourNodes());
  world.agents.verdict = "fail";
  world.agents.repair_verdict = GENERATE("skipped", "");
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(2));
  CHECK(world.agents.repairs.size() == 1);
  CHECK_FALSE(OnlyIncident(world).repair_at.is_set());
  world.Pass(Duration::Minutes(8));
  CHECK(world.agents.repairs.size() == 1);  // not before the next try
  world.agents.repair_verdict = "fail";
  world.Pass(Duration::Minutes(2));
  CHECK(world.agents.repairs.size() == 2);
  CHECK(OnlyIncident(world).repair_at.is_set());
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.state.nodes[0].validation_tries == kValidationTriesMax);
  CHECK(world.agents.repairs.size() == 2);  // that time it was begun
}

TEST_CASE("one of two repairs that was not begun is ordered again alone", "[proof]") {
  World world(FourNodes());
  world.agents.validates = false;
  for (const int32_t code : {79, 95}) {
    world.Turn({FaultObserved{NodeId(0), FaultKind::kXid, code, "0000:a1:00", "x", world.now}});
  }
  world.Pass(Duration::Minutes(2));
  REQUIRE(world.agents.repairs.size() == 1);
  world.Turn({ValidationReported{NodeId(0),
                                 world.state.nodes[0].validation_id,
                                 {{"cpu", "fail", 1, "", "x", 1, world.now},
                                  {"repair-reboot", "skipped", 0, "", "x", 1, world.now},
                                  {"repair-reset_gpu", "fail", 0, "", "x", 1, world.now}}}});
  world.Pass(Duration::Minutes(11));
  REQUIRE(world.agents.repairs.size() == 2);
  CHECK(world.agents.repairs[1].second == Repairs{{"reboot", {"0000:a1:00"}}});
}

TEST_CASE("repairs of a node's faults are ordered together, each with its devices", "[proof]") {
  World world(FourNodes());
  const auto fault = [&](int32_t code, const std::string& device) {
    world.Turn({FaultObserved{NodeId(0), FaultKind::kXid, code, device, "x", world.now}});
  };
  fault(79, "0000:a1:00");
  fault(95, "0000:a2:00");
  fault(95, "0000:a3:00");
  world.Pass(Duration::Minutes(2));
  REQUIRE(world.agents.repairs.size() == 1);
  CHECK(world.agents.repairs[0].second ==
        Repairs{{"reboot", {"0000:a1:00"}}, {"reset_gpu", {"0000:a2:00", "0000:a3:00"}}});
}

TEST_CASE("a validator that cannot run proves nothing", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"gpu-gemm"};
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(24 * 60));
  const Node& node = world.state.nodes[0];
  CHECK(node.state == NodeState::kQuarantined);
  CHECK_THAT(node.reason,
             Catch::Contains("is not proven gone, for want of gpu-gemm (skipped: not here)") &&
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
      "  - { kind: xid, code: 79, meaning: off the bus, action: drain_now, covers: [cpu], shadow: "
      "true }\n",
      "site.yaml");
  REQUIRE(rules);
  world.policy.faults.rules = *rules;
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  CHECK(OnlyIncident(world).action == FaultAction::kCount);
  CHECK(OnlyIncident(world).shadow == FaultAction::kDrainNow);
}

// --- what is seen again, or more of it --------------------------------------------------------

namespace {

struct Seen {
  FaultKind kind = FaultKind::kXid;
  int32_t code = 79;
  std::string device = "gpu0";
  std::string text = "text";
  bool gone = false;
  bool ends = false;
};

void See(World& world, uint32_t node, const Seen& seen) {
  REQUIRE(world.Do(FaultObserved{NodeId(node),
                                 seen.kind,
                                 seen.code,
                                 seen.device,
                                 seen.text,
                                 world.now,
                                 seen.gone,
                                 seen.ends}));
}

// A node that is being validated, whose agent does not report yet.
World Validating(int32_t code) {
  World world(FourNodes());
  world.agents.validates = false;
  world.Xid(0, code);
  world.Pass(Duration::Minutes(2));
  REQUIRE(world.NodeIs(0) == NodeState::kValidating);
  return world;
}

void Report(World& world) {
  world.agents.validates = true;
  world.Run();
}

std::string Recovery(const std::string& to) {
  return "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to " + to;
}

}  // namespace

TEST_CASE("a worse word about a fault that was only counted takes its node out", "[proof]") {
  World world(FourNodes());
  See(world, 0, {.code = 154, .text = Recovery("0x0 (None)")});
  CHECK(world.NodeIs(0) == NodeState::kReady);
  See(world, 0, {.code = 154, .text = Recovery("0x2 (Node Reboot)")});
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(OnlyIncident(world).count == 2);
  See(world, 0, {.code = 154, .text = Recovery("0x0 (None)")});
  CHECK(OnlyIncident(world).action == FaultAction::kDrainNow);
}

TEST_CASE("a rule that leaves shadow mode holds for faults that come again", "[proof]") {
  World world(FourNodes());
  const auto built_in = world.policy.faults.rules;
  world.policy.faults.rules =
      *health::FaultRulesFromText("version: 1\nshadow: true\n", "site.yaml");
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  world.policy.faults.rules = built_in;
  world.Pass(Duration::Minutes(2));
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a fault that comes again in its validation is not proven gone", "[proof]") {
  World world = Validating(79);
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK(world.state.nodes[0].validation_tries == 1);
  Report(world);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  world.Pass(Duration::Minutes(11));
  CHECK(world.NodeIs(0) == NodeState::kProbation);
}

TEST_CASE("a fault that comes again in each validation is left to people", "[proof]") {
  World world(FourNodes());
  world.agents.validates = false;
  world.Xid(0, 79);
  for (int minute = 0; minute < 600; ++minute) {
    world.Pass(Duration::Minutes(1));
    world.Xid(0, 79);
  }
  CHECK(world.state.nodes[0].validation_tries == kValidationTriesMax);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a word about a fault is void when it comes again", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"gpu-gemm"};
  world.Xid(0, 79);
  world.Pass(Duration::Seconds(61));
  REQUIRE(world.Do(IncidentVouched{IncidentId(1), "op", "reseated"}));
  world.Xid(0, 79);
  CHECK(OnlyIncident(world).vouched_by.empty());
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("another fault during a validation is tried with the next one", "[proof]") {
  World world = Validating(48);
  See(world, 0, {.kind = FaultKind::kDrive, .code = 0, .device = "nvme0n1"});
  Report(world);
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  world.Pass(Duration::Minutes(11));
  CHECK(world.NodeIs(0) == NodeState::kProbation);  // with the storage validator
}

TEST_CASE("a link that was lost during a validation is judged, and not cleared by it", "[proof]") {
  World world = Validating(48);
  See(world, 0, {.kind = FaultKind::kLinkDown, .code = 0, .device = "0000:ab:00.0"});
  Report(world);
  world.Pass(Duration::Seconds(10));
  const Incident& link = world.state.incidents.at(IncidentId(2));
  CHECK_FALSE(link.cleared_at.is_set());
  CHECK_FALSE(TakesWork(world.state.nodes[0]));
}

TEST_CASE("a fault on many devices at once is one return", "[proof]") {
  World world(FourNodes());
  for (const char* gpu : {"gpu0", "gpu1", "gpu2", "gpu3"}) {
    See(world, 0, {.code = 74, .device = gpu});
  }
  world.Pass(Duration::Minutes(2));
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.state.nodes[0].returns.size() == 1);
}

TEST_CASE("a reboot does not release a node that is named for repair", "[proof]") {
  World world(FourNodes());
  for (int i = 0; i < 4; ++i) {
    world.Xid(0, 79);
    world.Pass(Duration::Minutes(24 * 60));
  }
  CHECK(world.state.nodes[0].needs_repair);
  NodeJoined join{NodeId(0), world.state.nodes[0].identity, {}};
  join.identity.boot_id = "another";
  world.Turn({join});
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a node that reboots in each validation is not validated for ever", "[proof]") {
  World world(FourNodes());
  world.agents.validates = false;
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(2));
  for (int i = 0; i < 10; ++i) {
    NodeJoined join{NodeId(0), world.state.nodes[0].identity, {}};
    join.identity.boot_id = "boot-" + std::to_string(i);
    world.Turn({join});
    world.Pass(Duration::Minutes(2));
  }
  CHECK(world.state.nodes[0].validation_tries == 1);
}

TEST_CASE("a condition whose end is reported is not over before", "[proof]") {
  World world(FourNodes());
  const Seen down{FaultKind::kLinkGone, 0, "0000:ab:00.0", "absent", false, true};
  See(world, 0, down);
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kQuarantined);
  CHECK_THAT(world.state.nodes[0].reason, Catch::Contains("to see it well again"));
  Seen well = down;
  well.gone = true;
  See(world, 0, well);
  world.Pass(Duration::Minutes(2));
  CHECK(world.NodeIs(0) == NodeState::kProbation);
}

TEST_CASE("a condition that comes and goes is one incident", "[proof]") {
  World world(FourNodes());
  Seen noisy{FaultKind::kLinkNoisy, 0, "0000:ab:00.0", "errors", false, true};
  for (int i = 0; i < 100; ++i) {
    noisy.gone = i % 2 == 1;
    See(world, 0, noisy);
    world.Pass(Duration::Minutes(1));
  }
  CHECK(OnlyIncident(world).count == 50);
  CHECK(OnlyIncident(world).cleared_at.is_set());
}

TEST_CASE("a failure that waits for a fault is settled when that is over", "[proof]") {
  World world(FourNodes());
  const JobId job = world.Submit(testing::AJob().Gpus(0));
  const uint32_t node = world.NodesOf(job).at(0);
  Seen down{FaultKind::kLinkDown, 0, "0000:ab:00.0", "down", false, true};
  See(world, node, down);
  world.Exit(job, 0, ExitReason::kFailed, 1);
  CHECK(world.Is(job) == JobState::kStopping);
  down.gone = true;
  See(world, node, down);
  CHECK(world.Is(job) == JobState::kFinished);
}

TEST_CASE("what broke is proven gone before a person gives the node back", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"gpu-memory"};
  world.Xid(0, 63);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK_FALSE(world.Do(UndrainRequested{NodeId(0), "op"}));
  REQUIRE(world.Do(IncidentVouched{IncidentId(1), "op", "reset"}));
  CHECK(world.Do(UndrainRequested{NodeId(0), "op"}));
  CHECK(world.NodeIs(0) == NodeState::kReady);
}

TEST_CASE("a drain during a validation holds whatever comes of it", "[proof]") {
  World world = Validating(79);
  REQUIRE(world.Do(DrainRequested{NodeId(0), "op", "fan tray"}));
  Report(world);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK(world.state.nodes[0].actor == "op");
  world.Pass(Duration::Minutes(24 * 60));
  CHECK(world.NodeIs(0) == NodeState::kDrained);
}

TEST_CASE("a word about a fault that waits for the breaker ends it", "[proof]") {
  World world(FourNodes());
  world.policy.faults.breaker_least = 0;
  world.policy.faults.breaker_percent = 0;
  world.Xid(0, 79);
  CHECK(world.NodeIs(0) == NodeState::kReady);
  REQUIRE(world.Do(IncidentVouched{IncidentId(1), "op", "cable was loose"}));
  CHECK(world.state.incidents.at(IncidentId(1)).cleared_at.is_set());
}

TEST_CASE("a new fault keeps what people have to know of the former one", "[proof]") {
  World world(FourNodes());
  world.agents.missing_validators = {"gpu-gemm"};
  world.Xid(0, 79);
  world.Pass(Duration::Minutes(2));
  world.Xid(0, 48);
  CHECK_THAT(world.state.nodes[0].reason,
             Catch::Contains("Xid 48") && Catch::Contains("gpu-gemm (skipped"));
}

}  // namespace tide
