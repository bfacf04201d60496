// A gang after a fault: what is left of its nodes stays its own, and only what broke is replaced.

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using NodeIds = std::vector<uint32_t>;

}  // namespace

TEST_CASE("after a fault the others keep their nodes and ranks") {
  World world(Cluster().Zone("A").Leaf(3).Leaf(3).Zone("B").Leaf(6));
  const JobId job = world.Submit(AJob().Nodes(4).Zone("A"));
  const NodeIds before = world.NodesOf(job);
  world.Xid(before[1], 79);
  NodeIds after = world.NodesOf(job);
  REQUIRE(world.Is(job) == JobState::kRunning);
  CHECK(after[1] != before[1]);
  after[1] = before[1];
  CHECK(after == before);
}

TEST_CASE("nodes of a gang that a fault stops are kept until it goes on") {
  World world(Cluster().Leaf(5));
  const JobId gang = world.Submit(AJob().Nodes(4).Zone("A"));
  const JobId other = world.Submit(AJob().Nodes(3), "bob");
  world.agents.cut.emplace(NodeId(0), world.now);  // its task stays unproven
  (void)world.Do(NodeLost{NodeId(0)});
  REQUIRE(world.Is(gang) == JobState::kStopping);
  REQUIRE(world.state.uses[1].idle());
  CHECK(world.Is(other) == JobState::kQueued);
  CHECK(world.ClaimOf(other) == nullptr);
  SECTION("for it, when the lost task is proven to be gone") {
    world.Pass(world.policy.isolation_timeout + world.policy.isolation_margin);
    CHECK(world.NodesOf(gang) == NodeIds{4, 1, 2, 3});
  }
  SECTION("a higher class takes them all the same") {
    CHECK(world.Is(world.Submit(AJob().Nodes(3).Priority(30))) == JobState::kRunning);
  }
  SECTION("not after its user gave it up") {
    world.Cancel(gang);
    CHECK(world.Is(other) == JobState::kRunning);
  }
}

TEST_CASE("they are kept, too, while a failure may yet be explained by a fault") {
  World world(Cluster().Leaf(5));
  const JobId gang = world.Submit(AJob().Nodes(4));
  const JobId other = world.Submit(AJob().Nodes(2), "bob");
  for (uint32_t task = 0; task < 4; ++task) {
    world.agents.Exit(gang, task, ExitReason::kFailed, 1, world.now);
  }
  world.Run();
  REQUIRE(world.Is(gang) == JobState::kStopping);
  CHECK(world.Is(other) == JobState::kQueued);
  SECTION("it is") {
    world.Xid(2, 79);
    CHECK(world.NodesOf(gang) == NodeIds{0, 1, 4, 3});
  }
  SECTION("it is not: it has failed, and others may go on") {
    world.Pass(world.policy.evidence_wait);
    CHECK(world.Is(gang) == JobState::kFinished);
    CHECK(world.Is(other) == JobState::kRunning);
  }
}

TEST_CASE("a node that was rebooted under the gang is taken again only when no other is free") {
  const uint32_t nodes = GENERATE(3U, 4U);
  World world(Cluster().Leaf(nodes));
  const JobId gang = world.Submit(AJob().Nodes(3));
  world.agents.Reboot(NodeId(1));
  world.Rejoin(1);
  CHECK(world.NodeIs(1) == NodeState::kReady);
  CHECK(world.At(gang).hardware_restarts == 1);
  CHECK(world.NodesOf(gang) == (nodes == 3 ? NodeIds{0, 1, 2} : NodeIds{0, 3, 2}));
}

TEST_CASE("a replacement that cannot start the task is replaced in its turn") {
  World world(Cluster().Leaf(5));
  const JobId gang = world.Submit(AJob().Nodes(3));
  world.agents.unfit = {NodeId(3)};
  world.Xid(1, 79);
  CHECK(world.At(gang).attempts.size() == 3);
  CHECK(world.NodesOf(gang) == NodeIds{0, 4, 2});
}

TEST_CASE("a job that a fault ended comes first in its class, and behind higher ones") {
  World world(Cluster().Leaf(4));
  const JobId gang = world.Submit(AJob().Nodes(4));
  const JobId small = world.Submit(AJob().Nodes(2), "bob");  // bob used less than ada
  world.Xid(3, 79);
  REQUIRE(world.Is(gang) == JobState::kQueued);  // no fourth node
  CHECK(world.Is(small) == JobState::kRunning);  // nothing stands idle meanwhile
  CHECK(world.At(small).attempts.back().opportunistic);
  const JobId next = world.Submit(AJob().Nodes(4), "eve");
  world.Validate(3);
  world.Pass(world.policy.minimum_run);  // it gives back what it took out of order
  CHECK(world.Is(gang) == JobState::kRunning);
  CHECK(world.Is(next) == JobState::kQueued);
  CHECK(world.Is(small) == JobState::kQueued);
}

TEST_CASE("a part of a node that is kept for a lower gang is there for a higher class") {
  World world(Cluster().Leaf(4));
  const JobId gang = world.Submit(AJob().Nodes(4));
  world.Lose(3);
  for (uint32_t task = 0; task < 3; ++task) {
    world.agents.Exit(gang, task, ExitReason::kFailed, 1, world.now);
  }
  world.Run();
  REQUIRE(world.Is(gang) == JobState::kStopping);  // until the lost node is isolated
  const JobId same = world.Submit(AJob().Gpus(1), "bob");
  CHECK(world.Is(same) == JobState::kQueued);
  const JobId high = world.Submit(AJob().Gpus(1).Priority(30), "bob");
  CHECK(world.Is(high) == JobState::kRunning);
}

TEST_CASE("when none is free, a lower class gives as many nodes as were lost, in its zone") {
  World world(Cluster().Zone("A").Leaf(4).Zone("B").Leaf(4));
  const JobId gang = world.Submit(AJob().Nodes(3).Zone("cross-ok"));
  const JobId low_a = world.Submit(AJob().Priority(0).Zone("A"), "bob");
  world.Pass(Duration::Minutes(10));
  const JobId low_b = world.Submit(AJob().Nodes(4).Priority(0), "bob");  // cheaper to stop
  REQUIRE(world.NodesOf(gang) == NodeIds{0, 1, 2});
  world.Xid(1, 79);
  CHECK(world.NodesOf(gang) == NodeIds{0, 3, 2});
  CHECK(world.Is(low_a) == JobState::kQueued);
  CHECK(world.Is(low_b) == JobState::kRunning);
}

TEST_CASE("while its victims leave, a node that comes back replaces them") {
  World world(Cluster().Leaf(4));
  const JobId gang = world.Submit(AJob().Nodes(3));
  const JobId low = world.Submit(AJob().Priority(0));
  world.agents.saves = false;
  world.Xid(1, 79);
  REQUIRE(world.ClaimOf(gang) != nullptr);
  CHECK(world.ClaimOf(gang)->nodes == std::vector<NodeId>{NodeId(0), NodeId(3), NodeId(2)});
  world.Validate(1);
  CHECK(world.NodesOf(gang) == NodeIds{0, 1, 2});
  CHECK(world.Is(low) == JobState::kRunning);  // told to go on
}

TEST_CASE("nor does it move when as many others come free as it has nodes") {
  World world(Cluster().Leaf(3).Leaf(4));
  const JobId gang = world.Submit(AJob().Nodes(3));
  const JobId large = world.Submit(AJob().Nodes(3).Priority(0));
  world.Pass(Duration::Minutes(10));
  (void)world.Submit(AJob().Priority(0));  // cheaper to stop
  world.agents.saves = false;
  world.Xid(1, 79);
  REQUIRE(world.ClaimOf(gang)->nodes == std::vector<NodeId>{NodeId(0), NodeId(6), NodeId(2)});
  world.Finish(large);
  CHECK(world.NodesOf(gang) == NodeIds{0, 3, 2});
}

TEST_CASE("a gang that was leaving for another job when a fault came does not keep its nodes") {
  World world(Cluster().Leaf(3));
  const JobId gang = world.Submit(AJob().Nodes(3));
  world.Pass(Duration::Minutes(12 * 60));
  world.agents.saves = false;
  const JobId other = world.Submit(AJob().Nodes(2), "bob");
  world.Pass(world.policy.minimum_run + Duration::Minutes(2));  // its turn, in the same class
  REQUIRE(world.Is(gang) == JobState::kSaving);
  world.agents.stops = false;
  world.Xid(0, 79);
  world.Exit(gang, 1, ExitReason::kFailed, 1);
  world.Exit(gang, 2, ExitReason::kFailed, 1);
  CHECK(world.Is(gang) == JobState::kStopping);
  CHECK(world.NodesOf(other) == NodeIds{1, 2});
}

namespace {

// Gangs of two classes wherever they fit.
World WorldOfGangs(Prng& prng) {
  Cluster cluster;
  for (const char* zone : {"A", "B"}) {
    cluster.Zone(zone).Leaf(static_cast<uint32_t>(3 + prng.Below(3)));
    cluster.Leaf(static_cast<uint32_t>(2 + prng.Below(3)));
  }
  World world(cluster);
  constexpr const char* kUsers[] = {"ada", "bob", "eve"};
  for (int i = 0; i < 6; ++i) {
    (void)world.Submit(AJob()
                           .Nodes(static_cast<uint32_t>(1 + prng.Below(5)))
                           .Priority(prng.Below(3) == 0 ? 0 : 10)
                           .Zone(prng.Below(4) == 0 ? "cross-ok" : "single"),
                       kUsers[prng.Below(3)]);
  }
  return world;
}

// The job on `node`, if it is a gang of the higher class in one zone that has one idle node.
JobId GangWithOneSpare(const World& world, uint32_t node) {
  const ClusterState& state = world.state;
  const JobId id = state.uses[node].first().job;
  if (id == JobId() || world.At(id).spec->nodes == 1 || world.At(id).spec->priority == 0 ||
      state.fabric.Crosses(AllocationOf(world.At(id))->nodes)) {
    return {};
  }
  const auto spares = std::ranges::count_if(state.nodes, [&](const Node& each) {
    return state.uses[each.id.value()].idle() &&
           state.fabric.ZoneIndexOf(each.id) == state.fabric.ZoneIndexOf(NodeId(node));
  });
  return spares == 1 ? id : JobId();
}

}  // namespace

TEST_CASE("random worlds: one node breaks, one is free, and all but one stay as they were") {
  size_t faults = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Prng prng(seed);
    World world = WorldOfGangs(prng);
    const auto node = static_cast<uint32_t>(prng.Below(world.state.nodes.size()));
    const JobId gang = GangWithOneSpare(world, node);
    if (gang == JobId()) {
      continue;
    }
    ++faults;
    const NodeIds before = world.NodesOf(gang);
    const size_t attempts = world.At(gang).attempts.size();
    world.agents.stops = false;  // they leave at SIGKILL, or by themselves before
    const bool dies = prng.Below(2) == 0;
    dies ? world.Lose(node) : world.Xid(node, 79);
    for (uint32_t task = 0; task < before.size(); ++task) {
      if (prng.Below(2) == 0 && before[task] != node) {
        world.Exit(gang, task, ExitReason::kFailed, 1);
      }
      (void)world.Submit(AJob().Nodes(static_cast<uint32_t>(2 + prng.Below(3))).Priority(0), "new");
    }
    world.agents.stops = true;
    world.Pass(dies ? Duration::Minutes(11) : Duration::Seconds(10));
    INFO("seed " << seed);
    REQUIRE(world.At(gang).attempts.size() > attempts);
    const std::vector<Task>& tasks = world.At(gang).attempts[attempts].tasks;
    for (uint32_t task = 0; task < before.size(); ++task) {
      CHECK((tasks[task].node.value() == before[task]) == (before[task] != node));
      CHECK(world.state.fabric.ZoneIndexOf(tasks[task].node) ==
            world.state.fabric.ZoneIndexOf(NodeId(before[task])));
    }
  }
  CHECK(faults > 50);
}

}  // namespace tide::testing
