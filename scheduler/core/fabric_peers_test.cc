// A node whose fault only the fabric validator proves gone, and the idle nodes that help it.

#include "scheduler/core/fabric_peers.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/commands.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr int32_t kBreaksFabric = 79;

struct FabricSite : World {
  explicit FabricSite(const Cluster& cluster) : World(cluster) {
    const auto rules = health::FaultRulesFromText(
        "version: 1\nrules:\n"
        "  - { kind: xid, code: 79, meaning: m, action: drain_now, covers: [fabric] }\n",
        "rules");
    REQUIRE(rules);
    policy.faults.rules = *rules;
  }

  // Its node is out, and the validation that follows has begun.
  void BreakAndTest(uint32_t node) {
    agents.validates = false;
    Xid(node, kBreaksFabric);
    REQUIRE(NodeIs(node) == NodeState::kQuarantined);
    Pass(policy.faults.return_after);
    REQUIRE(NodeIs(node) == NodeState::kValidating);
  }
  void Answer() {
    agents.validates = true;
    Run();
  }
  [[nodiscard]] const Node& At(uint32_t node) const { return state.nodes[node]; }
  using World::At;
  [[nodiscard]] std::vector<uint64_t> PeersOf(uint32_t node) const {
    std::vector<uint64_t> peers;
    for (const NodeId peer : At(node).peers) {
      peers.push_back(peer.value());
    }
    return peers;
  }
  [[nodiscard]] size_t CountPeers() const {
    return static_cast<size_t>(std::ranges::count_if(
        state.nodes, [](const Node& each) { return each.idle_test.as_peer; }));
  }
};

using Peers = std::vector<uint64_t>;

}  // namespace

TEST_CASE("a node that only the fabric validator proves comes back by itself", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(4));
  const Node before = site.At(1);
  site.BreakAndTest(0);
  CHECK(site.PeersOf(0) == Peers{1, 2, 3});
  for (const uint32_t peer : {1U, 2U, 3U}) {
    CHECK(site.NodeIs(peer) == NodeState::kReady);
    CHECK(TakesWork(site.At(peer)));
  }
  std::vector<Command> commands;
  AppendForNode(site.state, site.policy, site.At(1), commands);
  REQUIRE(commands.size() == 1);
  CHECK(commands[0].as_peer);
  CHECK(commands[0].yields);
  CHECK_FALSE(commands[0].thorough);
  CHECK(commands[0].request_id == site.At(0).validation_id);
  site.Answer();
  CHECK(site.NodeIs(0) == NodeState::kProbation);
  CHECK(site.state.incidents.begin()->second.cleared_at.is_set());
  CHECK(site.CountPeers() == 0);
  CHECK(site.PeersOf(0).empty());
  Node after = site.At(1);
  after.idle_test.begun_at = before.idle_test.begun_at;
  CHECK(after == before);  // nothing of it stays with the peer
}

TEST_CASE("peers are idle and sound, and the nearest first", "[peers]") {
  struct Case {
    const char* name;
    void (*prepare)(FabricSite&);
    Peers peers;  // of node 0
  };
  // Nodes 0 to 2 on a leaf, 3 and 4 on another one of the zone, 5 and 6 in another zone.
  const Case cases[] = {
      {"all idle", [](FabricSite&) {}, {1, 2, 3}},
      {"a job runs on two",
       [](FabricSite& s) {
         for (const uint32_t node : {3U, 4U, 5U, 6U}) {
           s.Drain(node);
         }
         REQUIRE(s.Is(s.Submit(AJob().Nodes(2))) == JobState::kRunning);
         for (const uint32_t node : {3U, 4U, 5U, 6U}) {
           s.Undrain(node);
         }
       },
       {3, 4, 5}},
      {"two are drained",
       [](FabricSite& s) {
         s.Drain(1);
         s.Drain(3);
       },
       {2, 4, 5}},
      {"one is lost", [](FabricSite& s) { s.Lose(2); }, {1, 3, 4}},
      {"one is on probation",
       [](FabricSite& s) {
         s.Xid(1, kBreaksFabric);
         s.Pass(s.policy.faults.return_after);
         REQUIRE(s.NodeIs(1) == NodeState::kProbation);
       },
       {2, 3, 4}},
      {"one is under an idle test",
       [](FabricSite& s) {
         s.agents.validates = false;
         REQUIRE(s.Do(IdleTestBegun{NodeId(1), "idle-1"}));
       },
       {2, 3, 4}},
      {"only one is left",
       [](FabricSite& s) {
         for (const uint32_t node : {1U, 2U, 3U, 4U, 6U}) {
           s.Drain(node);
         }
       },
       {5}},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    FabricSite site(Cluster().Zone("A").Leaf(3).Leaf(2).Zone("B").Leaf(2));
    site.Drain(0);  // so that no job is placed there
    each.prepare(site);
    site.Undrain(0);
    site.BreakAndTest(0);
    CHECK(site.PeersOf(0) == each.peers);
    CHECK(site.CountPeers() == each.peers.size());
    site.Answer();
    CHECK(site.CountPeers() == 0);
    CHECK(site.NodeIs(0) == NodeState::kProbation);
  }
}

TEST_CASE("two nodes that are tested at the same time have peers of their own", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(8));
  site.agents.validates = false;
  site.Turn({FaultObserved{NodeId(0), FaultKind::kXid, kBreaksFabric, "g", "", site.now},
             FaultObserved{NodeId(4), FaultKind::kXid, kBreaksFabric, "g", "", site.now}});
  site.Pass(site.policy.faults.return_after);
  CHECK(site.PeersOf(0) == Peers{1, 2, 3});
  CHECK(site.PeersOf(4) == Peers{5, 6, 7});
  site.Answer();
  CHECK(site.NodeIs(0) == NodeState::kProbation);
  CHECK(site.NodeIs(4) == NodeState::kProbation);
}

TEST_CASE("a job takes a peer at once, and the node is tried again", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(4));
  site.BreakAndTest(0);
  const JobId gang = site.Submit(AJob().Nodes(2));
  CHECK(site.Is(gang) == JobState::kRunning);
  CHECK(site.CountPeers() == 0);  // all are let go
  CHECK(site.PeersOf(0).empty());
  CHECK(site.NodeIs(0) == NodeState::kValidating);
  site.Answer();
  REQUIRE(site.NodeIs(0) == NodeState::kQuarantined);
  CHECK_THAT(site.At(0).reason, Catch::Contains("no idle node was there to sum with it"));
  CHECK(ReturnsByItself(site.At(0)));
  site.Pass(Duration::Minutes(9));
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
  site.Pass(Duration::Minutes(2));  // with the node that is left
  CHECK(site.NodeIs(0) == NodeState::kProbation);
  CHECK(site.Is(gang) == JobState::kRunning);
}

TEST_CASE("while no node is idle it is tried again, and it is said why", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(3));
  const JobId gang = site.Submit(AJob().Nodes(2));
  site.Submit(AJob().Nodes(1));
  const std::vector<uint32_t> used = site.NodesOf(gang);
  const uint32_t broken = 3 - used[0] - used[1];
  site.Xid(broken, kBreaksFabric);
  site.Pass(Duration::Minutes(2));
  REQUIRE(site.NodeIs(broken) == NodeState::kQuarantined);
  CHECK_THAT(site.At(broken).reason,
             Catch::Contains("for want of fabric") &&
                 Catch::Contains("no idle node was there to sum with it"));
  site.Pass(Duration::Minutes(24 * 60));
  CHECK(ReturnsByItself(site.At(broken)));  // never left to people for that
  CHECK(site.At(broken).validation_tries == kValidationTriesMax - 1);
  site.Finish(gang);
  site.Pass(Duration::Minutes(61));
  CHECK(IsInService(site.At(broken)));
}

TEST_CASE("a sum that is wrong is tried with other peers, and harms none of them", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(7));
  SECTION("a peer spoils it") {
    site.agents.spoilers = {NodeId(2)};
    site.BreakAndTest(0);
    REQUIRE(site.PeersOf(0) == Peers{1, 2, 3});
    site.Answer();
    CHECK(site.NodeIs(0) == NodeState::kQuarantined);
    CHECK_THAT(site.At(0).reason, Catch::Contains("tried again with other nodes"));
    site.agents.validates = false;
    site.Pass(Duration::Minutes(10));
    CHECK(site.PeersOf(0) == Peers{4, 5, 6});
    site.Answer();
    CHECK(site.NodeIs(0) == NodeState::kProbation);
  }
  SECTION("the node spoils it each time: it is left to people") {
    site.agents.spoilers = {NodeId(0)};
    site.Xid(0, kBreaksFabric);
    site.Pass(Duration::Minutes(120));
    CHECK(site.NodeIs(0) == NodeState::kQuarantined);
    CHECK(AwaitsPerson(site.At(0)));
    CHECK_THAT(site.At(0).reason, Catch::Contains("for want of fabric (skipped"));
  }
  CHECK(site.CountPeers() == 0);
  for (uint32_t peer = 1; peer < 7; ++peer) {
    CHECK(site.NodeIs(peer) == NodeState::kReady);
    CHECK(site.At(peer).faults == 0);
    CHECK(site.At(peer).verdicts.empty());
  }
}

TEST_CASE("however the node's validation ends, its peers are let go", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(4));
  site.BreakAndTest(0);
  REQUIRE(site.CountPeers() == 3);
  SECTION("it is lost") {
    site.Lose(0);
  }
  SECTION("it breaks again") {
    site.Xid(0, kBreaksFabric);
  }
  SECTION("a peer is lost") {
    site.Lose(2);
  }
  SECTION("a peer breaks") {
    site.Xid(2, kBreaksFabric);
  }
  SECTION("a peer is drained") {
    site.Drain(2);
  }
  SECTION("a person has a peer validated") {
    site.Validate(2);
    CHECK(site.NodeIs(2) == NodeState::kValidating);
  }
  SECTION("a peer's test is not heard of for an hour") {
    site.now = site.now + Duration::Minutes(61);
    REQUIRE(site.Do(IdleTestBegun{NodeId(1), "idle-1"}));
    CHECK(site.At(1).idle_test.id == "idle-1");
  }
  CHECK(site.CountPeers() == 0);
  CHECK_FALSE(CheckInvariants(site.state));
}

TEST_CASE("nodes that are not idle any more are left out as peers", "[peers]") {
  FabricSite site(Cluster().Zone("A").Leaf(4));
  site.Xid(0, kBreaksFabric);
  site.Drain(2);
  const auto ask = [&](std::vector<NodeId> peers) {
    return site.Apply(ValidationRequested{NodeId(0), "v", "tide", std::move(peers)});
  };
  CHECK(ask({NodeId(9)}).error().code == ErrorCode::kNotFound);
  CHECK(site.NodeIs(0) == NodeState::kQuarantined);
  REQUIRE(ask({NodeId(0), NodeId(1), NodeId(1), NodeId(2)}));
  CHECK(site.PeersOf(0) == Peers{1});
  CHECK_FALSE(CheckInvariants(site.state));
}

}  // namespace tide::testing
