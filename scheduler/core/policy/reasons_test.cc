// Every code of the closed list: a cluster where it is said, its numbers, and the way out. What a
// way out promises is tried: the changed job starts, or is about to.

#include "scheduler/core/policy/reasons.h"

#include <catch2/catch.hpp>
#include <optional>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

std::optional<ReasonText> WhyNot(const World& world, JobId job, const std::string& code) {
  for (const Reason& reason : world.ReasonsOf(job)) {
    if (ReasonName(reason.code) == code) {
      return DescribeReason(world.At(job), reason);
    }
  }
  return std::nullopt;
}

void CheckWhy(const World& world, JobId job, const ReasonText& expected) {
  const auto said = WhyNot(world, job, expected.code);
  INFO(expected.code << " is not said");
  REQUIRE(said);
  CHECK(said->message == expected.message);
  CHECK(said->remedy == expected.remedy);
}

// The same job, changed, gets its nodes: at once, or when others have left them for it.
bool WouldRun(World world, const AJob& changed) {
  const JobId job = world.Submit(changed);
  return world.Is(job) == JobState::kRunning || world.ClaimOf(job) != nullptr;
}

// Two zones of two nodes, of which one each is taken.
World HalfTaken() {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  (void)world.Submit(AJob().Zone("A"));
  (void)world.Submit(AJob().Zone("B"));
  return world;
}

}  // namespace

TEST_CASE("placement.zone_capacity: across zones, in a higher class, or smaller") {
  World world = HalfTaken();
  const JobId across = world.Submit(AJob().Nodes(2));
  CheckWhy(world,
           across,
           {"placement.zone_capacity",
            "needs 2 nodes free in one zone; most free now: 1, short 1",
            "placement: {zone: cross-ok} would start it now, slower across zones; or priority: "
            "above-normal would take its nodes from lower jobs"});
  CHECK(WouldRun(world, AJob().Nodes(2).Zone("cross-ok")));
  CHECK(WouldRun(world, AJob().Nodes(2).Priority(20)));
  const JobId named = world.Submit(AJob().Nodes(2).Zone("A").Priority(50));
  CHECK(world.Is(named) == JobState::kRunning);
  const JobId fewer = world.Submit(AJob().Nodes(2).Zone("B").Priority(50));
  CHECK(world.Is(fewer) == JobState::kRunning);
  const JobId stuck = world.Submit(AJob().Nodes(2).Priority(50));
  CheckWhy(world,
           stuck,
           {"placement.zone_capacity",
            "needs 2 nodes free in one zone; most free now: 0, short 2",
            "tide ps --all: who runs, and for how long"});
}

TEST_CASE("placement.zone_capacity: as many nodes as are free would start") {
  World world(Cluster().Zone("A").Leaf(3));
  (void)world.Submit(AJob().Priority(50));
  const JobId job = world.Submit(AJob().Nodes(3).Priority(50));
  CheckWhy(world,
           job,
           {"placement.zone_capacity",
            "needs 3 nodes free in one zone; most free now: 2, short 1",
            "resources: {nodes: 2} would start now"});
  CHECK(WouldRun(world, AJob().Nodes(2).Priority(50)));
}

TEST_CASE("placement.zone_capacity: a job that may cross needs it in all zones together") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  (void)world.Submit(AJob().Zone("A").Priority(50));
  (void)world.Submit(AJob().Zone("B").Priority(50));
  const JobId job = world.Submit(AJob().Nodes(3).Zone("cross-ok").Priority(50));
  CheckWhy(world,
           job,
           {"placement.zone_capacity",
            "needs 3 nodes free in all zones together; most free now: 2, short 1",
            "resources: {nodes: 2} would start now"});
  CHECK(WouldRun(world, AJob().Nodes(2).Zone("cross-ok").Priority(50)));
}

TEST_CASE("placement.cross_zone_busy names the job that crosses") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2).Zone("C").Leaf(1));
  const JobId crossing = world.Submit(AJob().Nodes(3).Zone("cross-ok"));
  REQUIRE(world.Is(crossing) == JobState::kRunning);
  const JobId job = world.Submit(AJob().Nodes(2).Zone("cross-ok"));
  CheckWhy(world,
           job,
           {"placement.cross_zone_busy",
            "it would have to cross zones, and j-1 does already",
            "tide show j-1: how far that is"});
  world.Finish(crossing);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("placement.fragmented: as many GPUs as one node has free would start") {
  World world(Cluster().Zone("A").Leaf(1));
  (void)world.Submit(AJob().Gpus(5));
  const JobId job = world.Submit(AJob().Gpus(4));
  CheckWhy(world,
           job,
           {"placement.fragmented",
            "needs 4 GPUs on one node; 3 GPUs free, at most 3 on one node",
            "resources: {gpus_per_node: 3} would start now"});
  CHECK(WouldRun(world, AJob().Gpus(3)));
  (void)world.Submit(AJob().Gpus(3));
  CheckWhy(world,
           job,
           {"placement.fragmented",
            "needs 4 GPUs on one node; 0 GPUs free, at most 0 on one node",
            "tide ps --all: who runs, and for how long"});
}

TEST_CASE("placement.fragmented: jobs without GPUs wait for CPUs or memory") {
  World world(Cluster().Zone("A").Leaf(1));
  NodeJoined larger{NodeId(0), world.state.nodes[0].identity, {}};
  larger.identity.capacity = {8, 64ULL << 30U, 0, ""};
  world.Turn({larger});
  (void)world.Submit(AJob().Cpus(6));
  const JobId job = world.Submit(AJob().Cpus(3));
  CheckWhy(world,
           job,
           {"placement.fragmented",
            "needs 3 CPUs on one node; 2 CPUs free, at most 2 on one node",
            "resources: {cpus_per_node: 2} would start now"});
  CHECK(WouldRun(world, AJob().Cpus(2)));
}

TEST_CASE("nodes that could never hold a job do not count for what it lacks") {
  World world(Cluster().Zone("A").Leaf(2));
  constexpr uint64_t kGib = 1ULL << 30U;
  world.Resize(0, {8, 32 * kGib, 0, ""});
  world.Resize(1, {32, 128 * kGib, 0, ""});
  (void)world.Submit(AJob().Cpus(16).MemoryGib(78));
  const JobId job = world.Submit(AJob().Cpus(16).MemoryGib(100));
  CheckWhy(world,
           job,
           {"placement.fragmented",
            "needs 100 GiB of memory on one node; 50 GiB of memory free, at most 50 on one node",
            "resources: {memory_gib: 50} would start now"});
  CHECK(WouldRun(world, AJob().Cpus(16).MemoryGib(50)));
}

TEST_CASE("a gang of small tasks starts though one of large ones waits") {
  World world(Cluster().Zone("A").Leaf(4));
  for (const uint32_t node : {0U, 1U, 2U, 3U}) {
    world.Resize(node, {node < 2 ? 64U : 256U, 0, 8, ""});
  }
  const JobId busy = world.Submit(AJob().Nodes(2).Cpus(200).Priority(50));
  REQUIRE(world.NodesOf(busy) == std::vector<uint32_t>{2, 3});
  const JobId large = world.Submit(AJob().Nodes(2).Cpus(200).Priority(50));
  CheckWhy(world,
           large,
           {"placement.zone_capacity",
            "needs 2 nodes free in one zone; most free now: 0, short 2",
            "tide ps --all: who runs, and for how long"});
  CHECK(world.NodesOf(world.Submit(AJob().Nodes(2).Cpus(32).Priority(50))) ==
        std::vector<uint32_t>{0, 1});
}

TEST_CASE("group.unknown and size.never: what the cluster has lost") {
  World world(Cluster().Zone("A").Leaf(2));
  (void)world.Submit(AJob().Nodes(2));
  const JobId job = world.Submit(AJob().Nodes(2));
  const auto move = [&](uint32_t node) {
    NodeJoined join{NodeId(node), world.state.nodes[node].identity, {}};
    join.identity.group = "other";
    world.Turn({join});
  };
  move(1);
  CheckWhy(world,
           job,
           {"size.never",
            "needs 2 nodes, and as the cluster is now it could never have more than 1",
            "resources: {nodes: 1} could run; submit it again"});
  move(0);
  CheckWhy(world,
           job,
           {"group.unknown",
            "there is no node of group default now",
            "tide nodes: the groups there are; submit it again for one of them"});
}

TEST_CASE("held.user: resuming it starts it") {
  World world(Cluster().Zone("A").Leaf(1));
  const JobId job = world.Submit(AJob());
  world.Hold(job);
  CheckWhy(world, job, {"held.user", "suspended by ada", "tide resume j-1"});
  world.Release(job);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("backoff: until when, and where to look") {
  World world(Cluster().Zone("A").Leaf(1));
  const JobId job = world.Submit(AJob().RetryFailure(3, Duration::Seconds(60)));
  world.Exit(job, 0, ExitReason::kFailed, 1);
  world.Pass(Duration::Seconds(3));  // no fault explains it
  const auto said = WhyNot(world, job, "backoff");
  REQUIRE(said);
  CHECK(said->message.starts_with("waits until 2027-"));
  CHECK(said->remedy == "tide logs j-1: what failed");
  world.Pass(Duration::Seconds(60));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("preempt.in_progress and preempt.yielded name each other") {
  World world(Cluster().Zone("A").Leaf(2));
  const JobId low = world.Submit(AJob().Priority(0));
  (void)world.Submit(AJob().Priority(0).Notice(Duration::Minutes(5)));
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  CheckWhy(world,
           high,
           {"preempt.in_progress",
            "2 nodes kept for it; waiting for j-1 to save and leave",
            "tide show j-1: how far it is"});
  world.Pass(Duration::Minutes(3));  // the notice of the first is over
  CheckWhy(world,
           low,
           {"preempt.yielded",
            "gave its nodes to j-3 and runs again after that has started",
            "tide why j-3: how far that is"});
}

TEST_CASE("preempt.protected: until when, and who") {
  World world(Cluster().Zone("A").Leaf(1));
  (void)world.Submit(AJob(), "bob");
  const JobId job = world.Submit(AJob(), "eve");
  const auto said = WhyNot(world, job, "preempt.protected");
  REQUIRE(said);
  CHECK(said->message.starts_with("j-1 of the same class keeps its nodes until 2027-"));
  CHECK(said->remedy == "a higher priority does not wait for it; tide show j-1");
  CHECK(WouldRun(world, AJob().Priority(20)));
}

TEST_CASE("preempt.protected: nobody's job is safe from his own, whoever was told before") {
  World world(Cluster().Zone("A").Leaf(1));
  (void)world.Submit(AJob(), "bob");
  const JobId eve = world.Submit(AJob(), "eve");  // has used less, so she is told first
  const JobId own = world.Submit(AJob(), "bob");
  const JobId other = world.Submit(AJob(), "sam");
  CHECK(WhyNot(world, eve, "preempt.protected"));
  CHECK_FALSE(WhyNot(world, own, "preempt.protected"));
  CHECK(WhyNot(world, other, "preempt.protected"));
}

TEST_CASE("turn.slowdown: how much waiting it takes, and who gives way then") {
  World world(Cluster().Leaf(1));
  (void)world.Submit(AJob(), "bob");
  world.Pass(Duration::Minutes(300));  // its slice is over
  const JobId job = world.Submit(AJob(), "eve");
  const ReasonText told{
      "turn.slowdown",
      "no job of its class gives way before waiting has slowed this one down 2.0-fold, then j-1 "
      "does; four times that and more where its owner holds as much",
      "the estimate: about when; a higher priority does not wait for its turn"};
  CheckWhy(world, job, told);
  CHECK_FALSE(WhyNot(world, job, "preempt.protected"));
  CHECK(WouldRun(world, AJob().Priority(20)));
  CHECK_FALSE(WhyNot(world, world.Submit(AJob(), "bob"), "turn.slowdown"));  // it is his own
  CheckWhy(world, world.Submit(AJob(), "sam"), told);
  world.Pass(Duration::Minutes(16));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("nodes.unhealthy: how many, and who brings them back") {
  World world(Cluster().Zone("A").Leaf(2));
  world.Drain(1);
  const JobId job = world.Submit(AJob().Nodes(2));
  CheckWhy(world,
           job,
           {"nodes.unhealthy",
            "1 node of group default out of service",
            "tide nodes: which and why; tide validate or tide undrain brings them back"});
  world.Undrain(1);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("held.dependency: which job, how it must end, and how many more") {
  World world(Cluster().Zone("A").Leaf(2));
  const JobId a = world.Submit(AJob());
  const JobId b = world.Submit(AJob());
  const JobId job = world.Submit(AJob().After(a).After(b, AfterOutcome::kAny));
  CheckWhy(world,
           job,
           {"held.dependency",
            "waits for the success of j-1, and for 1 more",
            "tide why j-1: how far that is"});
  world.Finish(a);
  CheckWhy(
      world, job, {"held.dependency", "waits for the end of j-2", "tide why j-2: how far that is"});
  world.Finish(b);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("order.ahead: who comes first, and how many") {
  World world(Cluster().Zone("A").Leaf(1));
  (void)world.Submit(AJob().Priority(50));
  (void)world.Submit(AJob());
  const JobId job = world.Submit(AJob());
  CheckWhy(world,
           job,
           {"order.ahead", "j-2 of the same priority comes first and waits, too", "tide why j-2"});
}

}  // namespace tide::testing
