// What is done about faults when there are many: the circuit breaker, the leaf switch.

#include "scheduler/core/incidents.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

EventBody Xid79On(const World& world, uint32_t node) {
  return FaultObserved{NodeId(node), FaultKind::kXid, 79, "gpu0", "fallen off", world.now};
}

EventBody LinkLostOn(const World& world, uint32_t node) {
  return FaultObserved{NodeId(node), FaultKind::kLinkDown, 0, "mlx5_0", "Link DOWN", world.now};
}

size_t CountNodes(const World& world, NodeState wanted) {
  return static_cast<size_t>(std::ranges::count_if(
      world.state.nodes, [&](const Node& node) { return node.state == wanted; }));
}

std::vector<Incident> IncidentsOf(const World& world, FaultKind kind) {
  std::vector<Incident> found;
  for (const auto& [id, incident] : world.state.incidents) {
    if (incident.kind == kind) {
      found.push_back(incident);
    }
  }
  return found;
}

Cluster FullLeaves(uint32_t leaves, uint32_t nodes) {
  Cluster cluster;
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
    cluster.Leaf(nodes);
  }
  return cluster;
}

void Break(World& world, uint32_t from, uint32_t to) {
  std::vector<EventBody> faults;
  for (uint32_t node = from; node < to; ++node) {
    faults.push_back(Xid79On(world, node));
  }
  world.Turn(faults);
  world.Run();
}

}  // namespace

TEST_CASE("a thousand nodes that break at once: two in a hundred leave, one page") {
  World world(FullLeaves(50, 20));
  Break(world, 0, 1000);
  CHECK(CountNodes(world, NodeState::kQuarantined) == 20);
  CHECK(CountNodes(world, NodeState::kReady) == 980);
  const std::vector<Incident> pages = IncidentsOf(world, FaultKind::kBreaker);
  REQUIRE(pages.size() == 1);
  CHECK(Pages(pages[0]));
  CHECK(pages[0].text == "more nodes broke within 10m than automation takes out of service");
  for (const Incident& incident : IncidentsOf(world, FaultKind::kXid)) {
    const bool held = incident.stage == IncidentStage::kHeld;
    CHECK(held != incident.withdrawn_at.is_set());
    CHECK(incident.part_of == (held ? pages[0].id : IncidentId()));
  }
}

TEST_CASE("what the breaker held goes on when its window has passed, and the page is over") {
  World world(FullLeaves(1, 6));
  world.policy.faults.return_after = Duration();
  Break(world, 0, 5);
  CHECK(CountNodes(world, NodeState::kQuarantined) == 3);  // 2 % would be none
  world.Pass(Duration::Minutes(9));
  CHECK(CountNodes(world, NodeState::kQuarantined) == 3);
  CHECK_FALSE(IncidentsOf(world, FaultKind::kBreaker)[0].cleared_at.is_set());
  world.Pass(Duration::Minutes(1));
  CHECK(CountNodes(world, NodeState::kQuarantined) == 5);
  CHECK(IncidentsOf(world, FaultKind::kBreaker)[0].cleared_at.is_set());
}

TEST_CASE("nodes that are out of service already do not use up the breaker") {
  World world(FullLeaves(1, 8));
  for (const uint32_t node : {0U, 1U, 2U, 3U}) {
    world.Drain(node);
  }
  Break(world, 0, 7);
  CHECK(CountNodes(world, NodeState::kQuarantined) == 7);
  CHECK(IncidentsOf(world, FaultKind::kBreaker).empty());
}

TEST_CASE("a failure on a node that the breaker keeps in service is still the node's fault") {
  World world(FullLeaves(1, 5));
  Break(world, 0, 3);
  const JobId job = world.Submit(AJob());
  const uint32_t node = world.NodesOf(job).at(0);
  world.Turn({Xid79On(world, node)});
  CHECK(world.NodeIs(node) == NodeState::kReady);
  CHECK(world.Is(job) == JobState::kRunning);  // it may be well
  world.Exit(job, 0, ExitReason::kFailed, 1);
  CHECK(world.Is(job) == JobState::kRunning);  // again: it need not retry failures of its own
  CHECK(world.At(job).attempts.size() == 2);
}

TEST_CASE("32 nodes of a leaf lose their links: one page, nobody leaves") {
  World world(Cluster().Leaf(32).Leaf(32));
  std::vector<EventBody> faults;
  for (uint32_t node = 0; node < 32; ++node) {
    faults.push_back(LinkLostOn(world, node));
  }
  world.Turn(faults);
  world.Pass(Duration::Minutes(20));
  CHECK(CountNodes(world, NodeState::kReady) == 64);
  const std::vector<Incident> pages = IncidentsOf(world, FaultKind::kLeafLinks);
  REQUIRE(pages.size() == 1);
  CHECK(pages[0].text == "several nodes of leaf A-l1 in zone A lost their links within 1m");
  for (const Incident& incident : IncidentsOf(world, FaultKind::kLinkDown)) {
    CHECK(incident.hold == HoldReason::kLeaf);
    CHECK(incident.part_of == pages[0].id);
  }
}

TEST_CASE("links lost one after the other, within the wait, are the leaf's, too") {
  World world(Cluster().Leaf(8));
  for (const uint32_t node : {2U, 4U, 6U}) {
    world.Turn({LinkLostOn(world, node)});
    world.Pass(Duration::Seconds(2));
  }
  world.Pass(Duration::Minutes(1));
  CHECK(CountNodes(world, NodeState::kReady) == 8);
}

TEST_CASE("links lost on nodes of several leaves are the nodes'") {
  World world(Cluster().Leaf(4).Leaf(4).Leaf(4));
  world.Turn({LinkLostOn(world, 0), LinkLostOn(world, 4), LinkLostOn(world, 8)});
  CHECK(CountNodes(world, NodeState::kReady) == 12);  // others of a leaf may follow
  world.Pass(Duration::Seconds(5));
  CHECK(CountNodes(world, NodeState::kDrained) == 3);
  CHECK(IncidentsOf(world, FaultKind::kLeafLinks).empty());
}

TEST_CASE("the page of a leaf is over when its nodes are well") {
  World world(Cluster().Leaf(4));
  world.Turn({LinkLostOn(world, 0), LinkLostOn(world, 1), LinkLostOn(world, 2)});
  REQUIRE(IncidentsOf(world, FaultKind::kLeafLinks).size() == 1);
  for (const Incident& incident : IncidentsOf(world, FaultKind::kLinkDown)) {
    CHECK_FALSE(IncidentsOf(world, FaultKind::kLeafLinks)[0].cleared_at.is_set());
    (void)world.Do(IncidentCleared{incident.id});
  }
  CHECK(IncidentsOf(world, FaultKind::kLeafLinks)[0].cleared_at.is_set());
  CHECK(world.state.open_incidents.by_node.empty());
}

TEST_CASE("links that are gone, degraded or unsteady on a leaf are its switch's fault, too") {
  for (const FaultKind kind :
       {FaultKind::kLinkGone, FaultKind::kLinkDegraded, FaultKind::kLinkUnsteady}) {
    World world(FullLeaves(2, 8));
    std::vector<EventBody> faults;
    for (uint32_t node = 0; node < 4; ++node) {
      faults.emplace_back(FaultObserved{NodeId(node), kind, 0, "0000:ab:00.0", "text", world.now});
    }
    world.Turn(faults);
    world.Pass(Duration::Minutes(5));
    CHECK(CountNodes(world, NodeState::kReady) == 16);
    CHECK(IncidentsOf(world, FaultKind::kLeafLinks).size() == 1);
  }
}

}  // namespace tide::testing
