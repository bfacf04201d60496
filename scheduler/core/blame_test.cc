#include "scheduler/core/blame.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr const char* kGpu = "0000:a1:00";
constexpr const char* kOther = "0000:b1:00";

struct FaultySite : World {
  explicit FaultySite(uint32_t nodes = 4) : World(Cluster().Leaf(nodes)) {}

  void See(uint32_t node, int32_t code, const std::string& device = kGpu) {
    const std::string text = "NVRM: Xid (PCI:" + device + "): " + std::to_string(code) + ", x";
    REQUIRE(Do(FaultObserved{NodeId(node), FaultKind::kXid, code, device, text, now}));
  }
  [[nodiscard]] const Incident& Of(int32_t code, const std::string& device = kGpu) const {
    const auto found = std::ranges::find_if(state.incidents, [&](const auto& each) {
      return each.second.code == code && each.second.device == device;
    });
    REQUIRE(found != state.incidents.end());
    return found->second;
  }
  // A job on node 0 alone meets the fault there, and goes.
  void MeetOn0(int32_t code, const std::string& user, const std::string& device = kGpu) {
    const JobId job = Submit(AJob(), user);
    REQUIRE(NodesOf(job) == std::vector<uint32_t>{0});
    See(0, code, device);
    Cancel(job);
    now = now + Duration::Minutes(5);
  }
};

}  // namespace

TEST_CASE("of several Xids of one GPU the worst is the cause, whichever came first", "[blame]") {
  std::vector<int32_t> codes = {45, 63, 79, 95};
  do {
    FaultySite site;
    for (const int32_t code : codes) {
      site.See(0, code);
      site.now = site.now + Duration::Seconds(3);
    }
    const IncidentId cause = site.Of(79).id;
    for (const int32_t code : {45, 63, 95}) {
      CAPTURE(codes, code);
      CHECK(site.Of(code).part_of == cause);
    }
    CHECK(site.Of(79).part_of == IncidentId());
    CHECK_THAT(site.state.nodes[0].reason, Catch::StartsWith("Xid 79 on 0000:a1:00"));
  } while (std::ranges::next_permutation(codes).found);
}

TEST_CASE("faults of another GPU, another node or another time have causes of their own",
          "[blame]") {
  FaultySite site;
  site.See(0, 45);
  site.See(0, 79, kOther);
  site.See(1, 95);
  site.now = site.now + Duration::Minutes(2);
  site.See(0, 13);
  site.See(0, 8);
  for (const auto& [id, incident] : site.state.incidents) {
    CAPTURE(incident.code);
    CHECK(incident.part_of == IncidentId());
  }
}

TEST_CASE("what came of a fault that took its node out is no return of its own", "[blame]") {
  FaultySite site;
  site.See(0, 48);
  site.See(0, 63);
  REQUIRE(site.Of(63).part_of == site.Of(48).id);
  site.Pass(Duration::Minutes(2));
  REQUIRE(site.NodeIs(0) == NodeState::kProbation);
  REQUIRE(site.state.nodes[0].returns.size() == 1);
  CHECK(site.state.nodes[0].returns[0].code == 48);
  CHECK(site.Of(63).cleared_at.is_set());
}

TEST_CASE("a cause that is milder than what came of it does not shield the node", "[blame]") {
  FaultySite site;
  const auto rules = health::FaultRulesFromText(
      "version: 1\nrules:\n  - { kind: xid, code: 79, meaning: m, action: count }\n", "rules");
  REQUIRE(rules);
  site.policy.faults.rules = *rules;
  site.See(0, 79);
  CHECK(site.NodeIs(0) == NodeState::kReady);
  site.See(0, 95);
  CHECK(site.Of(95).part_of == site.Of(79).id);
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a user's bug on many nodes takes none of them out", "[blame]") {
  FaultySite site(8);
  const JobId job = site.Submit(AJob().Nodes(8));
  for (uint32_t node = 0; node < 8; ++node) {
    site.See(node, 31);
    site.See(node, 13);
  }
  CHECK(std::ranges::all_of(site.state.nodes, IsInService));
  site.Cancel(job);
  const JobId other = site.Submit(AJob().Nodes(8), "bob");
  for (uint32_t node = 0; node < 8; ++node) {
    site.See(node, 31);  // bob has the same library
  }
  CHECK(std::ranges::all_of(site.state.nodes, IsInService));
  CHECK(site.Is(other) == JobState::kRunning);
}

TEST_CASE("a fault that two users met on one GPU has the node validated", "[blame]") {
  FaultySite site;
  const int32_t code = GENERATE(13, 31, 43);
  site.MeetOn0(code, "ann");
  CHECK(site.NodeIs(0) == NodeState::kReady);
  SECTION("by one user it says nothing") {
    site.MeetOn0(code, "ann");
    CHECK(site.NodeIs(0) == NodeState::kReady);
  }
  SECTION("on another GPU it says nothing") {
    site.MeetOn0(code, "bob", kOther);
    CHECK(site.NodeIs(0) == NodeState::kReady);
  }
  SECTION("days later it says nothing") {
    site.Pass(Duration::Minutes(25 * 60));
    CHECK(site.Of(code).cleared_at.is_set());
    site.MeetOn0(code, "bob");
    CHECK(site.NodeIs(0) == NodeState::kReady);
  }
  SECTION("by two it takes the node out, until validators have passed") {
    site.MeetOn0(code, "bob");
    CHECK(site.NodeIs(0) == NodeState::kDrained);
    CHECK_THAT(site.state.nodes[0].reason, Catch::Contains("jobs of two users met it"));
    CHECK(site.Of(code).covers == std::vector<std::string>{"gpu-gemm", "gpu-memory"});
    site.Pass(Duration::Minutes(2));
    CHECK(site.NodeIs(0) == NodeState::kProbation);
  }
}

TEST_CASE("what was only counted is over a day after it was seen last", "[blame]") {
  FaultySite site;
  site.See(0, 13);
  site.Pass(Duration::Minutes(20 * 60));
  site.See(0, 13);
  CHECK(site.Of(13).count == 2);
  site.Pass(Duration::Minutes(20 * 60));
  CHECK_FALSE(site.Of(13).cleared_at.is_set());
  site.Pass(Duration::Minutes(5 * 60));
  CHECK(site.Of(13).cleared_at.is_set());
  CHECK(site.state.open_incidents.counted.empty());
}

TEST_CASE("several faults of one node take one of the breaker's places", "[blame]") {
  FaultySite site(8);
  std::vector<EventBody> faults;
  for (const int32_t code : {79, 95, 48, 64}) {
    faults.push_back(FaultObserved{NodeId(0), FaultKind::kXid, code, kGpu, "x", site.now});
  }
  site.Turn(faults);
  site.Run();
  CHECK(std::ranges::none_of(site.state.incidents, [](const auto& each) {
    return each.second.kind == FaultKind::kBreaker;
  }));
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
}

TEST_CASE("a job that came after a fault was seen did not meet it", "[blame]") {
  FaultySite site;
  site.MeetOn0(13, "ann");
  const Instant seen_at = site.now;
  site.now = site.now + Duration::Seconds(1);
  site.Submit(AJob(), "bob");
  REQUIRE(site.Do(FaultObserved{NodeId(0), FaultKind::kXid, 13, kGpu, "late", seen_at}));
  CHECK(site.NodeIs(0) == NodeState::kReady);
}

}  // namespace tide::testing
