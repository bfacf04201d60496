// When a lost node's tasks are given up: by the isolation timeout, or earlier by the rule with
// witnesses (docs/adr/0005).

#include "scheduler/core/isolation.h"

#include <catch2/catch.hpp>

#include "scheduler/core/lease.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr Duration kAlone = Duration::Seconds(60);

Duration Long(const World& world) {
  return world.policy.isolation_timeout + world.policy.isolation_margin;
}
Duration Short(const World& world) {
  return kAlone + world.policy.isolation_margin;
}

// Both in one moment: what the second one ran was not stopped before.
void LoseBoth(World& world, const std::vector<uint32_t>& nodes) {
  std::vector<EventBody> lost;
  for (const NodeId node : {NodeId(nodes[0]), NodeId(nodes[1])}) {
    world.agents.cut.emplace(node, world.now);
    lost.emplace_back(NodeSilent{node});
    lost.emplace_back(NodeLost{node});
  }
  world.Turn(lost);
  world.Run();
}

TEST_CASE("what a node is believed to keep to") {
  Policy policy;
  policy.isolation_timeout = Duration::Minutes(10);
  policy.witness_timeout = kAlone;
  CHECK(WitnessTimeoutOf(std::nullopt, policy) == Duration());  // an older agent
  CHECK(WitnessTimeoutOf(0, policy) == kAlone);                 // it holds no gang
  CHECK(WitnessTimeoutOf(30'000, policy) == kAlone);            // shorter, until it is welcomed
  CHECK(WitnessTimeoutOf(90'000, policy) == Duration::Seconds(90));  // longer, until then
  CHECK(WitnessTimeoutOf(600'000, policy) == Duration());
  CHECK(WitnessTimeoutOf(-1, policy) == Duration());
  policy.witness_timeout = Duration();
  CHECK(WitnessTimeoutOf(0, policy) == Duration());
  policy.witness_timeout = policy.isolation_timeout;
  CHECK(WitnessTimeoutOf(0, policy) == Duration());
}

TEST_CASE("the last task of a gang is given up soon after all others are proven gone") {
  World world(Cluster().Witness(kAlone).Leaf(4));
  const JobId job = world.Submit(AJob().Nodes(3));
  const uint32_t lost = world.NodesOf(job).front();
  world.Lose(lost);
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Short(world) - Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.At(job).attempts.front().tasks.front().exit.reason == ExitReason::kLost);
}

TEST_CASE("the wait begins with the last proof, not with the loss") {
  World world(Cluster().Witness(kAlone).Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.agents.stops = false;  // the other rank takes its time
  world.Lose(world.NodesOf(job).front());
  const Duration grace = world.policy.stop_grace;  // then it is killed
  REQUIRE(grace > Duration());
  world.Pass(Short(world));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(grace - Duration::Millis(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Millis(1));
  CHECK(world.Is(job) != JobState::kStopping);
}

TEST_CASE("two lost tasks may be each other's witness: the isolation timeout holds") {
  World world(Cluster().Witness(kAlone).Leaf(5));
  const JobId job = world.Submit(AJob().Nodes(3));
  LoseBoth(world, world.NodesOf(job));
  world.Pass(Long(world) - Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("of two lost tasks one comes back and is gone: the other's wait begins") {
  World world(Cluster().Witness(kAlone).Leaf(5));
  const JobId job = world.Submit(AJob().Nodes(2));
  const std::vector<uint32_t> nodes = world.NodesOf(job);
  LoseBoth(world, nodes);
  world.Pass(Duration::Seconds(200));
  world.Rejoin(nodes[1]);
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Short(world) - Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a proof that comes late never makes the wait longer than the isolation timeout") {
  World world(Cluster().Witness(kAlone).Leaf(5));
  const JobId job = world.Submit(AJob().Nodes(2));
  const std::vector<uint32_t> nodes = world.NodesOf(job);
  LoseBoth(world, nodes);
  world.Pass(Long(world) - Duration::Seconds(30));
  world.Rejoin(nodes[1]);
  world.Pass(Duration::Seconds(29));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a task that is alone, and a node that keeps to no witnesses, have the whole timeout") {
  const bool alone = GENERATE(true, false);
  World world(alone ? Cluster().Witness(kAlone).Leaf(3) : Cluster().Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(alone ? 1 : 2));
  world.Lose(world.NodesOf(job).front());
  world.Pass(Long(world) - Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a new leader counts from its own beginning, whatever the clocks were") {
  World world(Cluster().Witness(kAlone).Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  world.Lose(world.NodesOf(job).front());
  world.state.led_since = world.now = world.now + Duration::Minutes(5);  // its clock is ahead
  world.Turn({});
  CHECK(world.last.wake_at == world.now + kLeaseDuration + Short(world));
  CHECK(world.Is(job) == JobState::kStopping);
}

TEST_CASE("what a node is believed to let run without a scheduler") {
  Policy policy;
  policy.isolation_timeout = Duration::Minutes(2);
  CHECK(IsolationTimeoutOf(std::nullopt, policy) == Duration::Minutes(2));  // an older agent
  CHECK(IsolationTimeoutOf(0, policy) == Duration::Minutes(2));             // it holds nothing
  CHECK(IsolationTimeoutOf(-1, policy) == Duration::Minutes(2));
  CHECK(IsolationTimeoutOf(600'000, policy) == Duration::Minutes(10));  // longer, until it is told
  CHECK(IsolationTimeoutOf(INT64_MAX, policy) == Duration::Minutes(30 * 24 * 60));
}

TEST_CASE("a scheduler that is started with a shorter timeout waits for what was told before") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  const uint32_t node = world.NodesOf(job).front();
  world.state.nodes[node].identity.isolation_timeout = world.policy.isolation_timeout;
  const Duration before = Long(world);
  world.policy.isolation_timeout = Duration::Minutes(1);
  world.Lose(node);
  world.Pass(before - Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kStopping);
  world.Pass(Duration::Seconds(1));
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a proof that comes the usual way ends the wait") {
  World world(Cluster().Witness(kAlone).Leaf(3));
  const JobId job = world.Submit(AJob().Nodes(2));
  const uint32_t lost = world.NodesOf(job).front();
  world.Lose(lost);
  world.Pass(Duration::Seconds(5));
  world.agents.Reboot(NodeId(lost));
  world.Rejoin(lost);
  CHECK(world.Is(job) == JobState::kRunning);
}

NodeIdentity Agent(const World& world, uint32_t node, const std::string& state_id) {
  NodeIdentity agent = world.state.nodes[node].identity;
  agent.machine_id = "m1";
  agent.boot_id = "b1";
  agent.state_id = state_id;
  return agent;
}

TEST_CASE("an agent with another state folder joins when the former one's tasks are over",
          "[identity]") {
  World world(Cluster().Leaf(1));
  const NodeIdentity former = Agent(world, 0, "s1");
  REQUIRE(world.Apply(NodeJoined{NodeId(0), former, {}}));
  const JobId job = world.Submit(AJob());
  const std::vector<TaskReported> held = world.agents.Held(NodeId(0));
  REQUIRE(held.size() == 1);
  const bool lists = GENERATE(false, true);  // a clone has the journal, too
  NodeJoined comer{NodeId(0), Agent(world, 0, "s2"), {}};
  if (lists) {
    comer.tasks = held;
  }
  const auto refused = [&] {
    const ClusterState before = world.state;
    const auto applied = world.Apply(comer);
    CHECK(DifferenceOfRows(before, world.state).empty());
    return !applied && applied.error().code == ErrorCode::kConflict;
  };
  SECTION("while the node is heard, and while it is lost") {
    CHECK(refused());
    CHECK(world.Is(job) == JobState::kRunning);
    world.Lose(0);
    CHECK(refused());
    world.Pass(Long(world) - Duration::Nanos(1));
    CHECK(refused());
    CHECK(world.agents.CheckNoRankTwice() == std::nullopt);
    world.Pass(Duration::Nanos(1));
    comer.tasks.clear();
    CHECK(world.Apply(comer));
    CHECK(world.state.nodes[0].identity.state_id == "s2");
    CHECK(world.Is(job) == JobState::kStarting);
  }
  SECTION("the former one says that they ended") {
    TaskReported ended = held.front();
    ended.state = TaskState::kExited;
    ended.exit.reason = ExitReason::kSucceeded;
    REQUIRE(world.Apply(ended));
    CHECK(world.Apply(comer));
  }
  SECTION("the former one comes back") {
    world.Lose(0);
    CHECK(refused());
    world.agents.cut.erase(NodeId(0));
    CHECK(world.Apply(NodeJoined{NodeId(0), former, held}));
    CHECK(world.state.nodes[0].identity.state_id == "s1");
  }
}

TEST_CASE("an order to start that was not heard of may have reached the former agent",
          "[identity]") {
  World world(Cluster().Leaf(1));
  REQUIRE(world.Apply(NodeJoined{NodeId(0), Agent(world, 0, "s1"), {}}));
  world.agents.cut.emplace(NodeId(0), world.now);
  const JobId job = world.Submit(AJob());
  REQUIRE(world.Is(job) == JobState::kStarting);
  CHECK_FALSE(world.Apply(NodeJoined{NodeId(0), Agent(world, 0, "s2"), {}}));
  CHECK(world.Apply(NodeJoined{NodeId(0), Agent(world, 0, "s1"), {}}));
}

TEST_CASE("what tells an agent from the one before it", "[identity]") {
  NodeIdentity last;
  last.machine_id = "m1";
  last.boot_id = "b1";
  last.state_id = "s1";
  const auto comes = [&](const char* machine, const char* boot, const char* folder) {
    NodeIdentity comer;
    comer.machine_id = machine;
    comer.boot_id = boot;
    comer.state_id = folder;
    return MayRunBeside(last, comer);
  };
  CHECK_FALSE(comes("m1", "b1", "s1"));  // the same again
  CHECK(comes("m1", "b1", "s2"));        // its supervisors may have outlived the folder
  CHECK(comes("m2", "b2", "s2"));
  CHECK(comes("m2", "b2", "s1"));        // the folder is shared
  CHECK_FALSE(comes("m1", "b2", "s2"));  // started anew, without a disk
  CHECK_FALSE(comes("m1", "b2", "s1"));
  CHECK(comes("", "b2", "s2"));      // which machine is not known, so nothing is proven
  CHECK_FALSE(comes("", "b1", ""));  // of an older release
  last = NodeIdentity();
  CHECK_FALSE(comes("m1", "b1", "s1"));  // the last one was
}

}  // namespace
}  // namespace tide::testing
