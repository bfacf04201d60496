// Preemption as a transaction: scheduling.md section 3.

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/commands.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using Codes = std::vector<std::string>;

// Two small jobs of the lowest class fill a cluster of two; ranks do not save until told to.
struct FullWorld : World {
  JobId a;
  JobId b;
  explicit FullWorld(const Cluster& cluster = Cluster().Leaf(2)) : World(cluster) {
    a = Submit(AJob().Priority(0));
    b = Submit(AJob().Priority(0));
    agents.saves = false;
  }
  void LetSave() {
    agents.saves = true;
    Run();
  }
};

size_t CountLogged(const World& world, std::string_view name) {
  return static_cast<size_t>(std::count_if(world.log.begin(), world.log.end(), [&](const Event& e) {
    return EventName(e.body) == name;
  }));
}

}  // namespace

TEST_CASE("claim and orders to the victims are one step") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high) != nullptr);
  CHECK(world.ClaimOf(high)->victims == std::vector<JobId>{world.a, world.b});
  CHECK(world.Is(world.a) == JobState::kSaving);
  CHECK(world.Is(world.b) == JobState::kSaving);
  CHECK(world.Why(high) == Codes{"preempt.in_progress"});
  CHECK(world.last.wake_at == world.now + Duration::Seconds(120));
}

TEST_CASE("the beneficiary starts on the claimed nodes once the last victim is gone") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  const std::vector<NodeId> claimed = world.ClaimOf(high)->nodes;
  world.LetSave();
  REQUIRE(world.Is(high) == JobState::kRunning);
  CHECK(AllocationOf(world.At(high))->nodes == claimed);
  CHECK(world.Is(world.a) == JobState::kQueued);
  CHECK(CountLogged(world, "claim_made") == 1);
  CHECK(CountLogged(world, "suspend_requested") == 2);
}

TEST_CASE("the image of the beneficiary is fetched while its victims save") {
  FullWorld world;
  const auto images = [](const std::vector<Command>& commands) {
    std::vector<std::pair<NodeId, JobId>> fetched;
    for (const Command& command : commands) {
      if (command.kind == CommandKind::kFetchImage) {
        fetched.emplace_back(command.node, command.job);
      }
    }
    return fetched;
  };
  JobSpec spec = AJob().Nodes(2).Priority(30).Spec();
  const bool contained = GENERATE(true, false);
  spec.image = contained ? "reg.example/train:1" : "host";
  const JobId high(world.state.next_job_id);
  REQUIRE(world.Apply(JobSubmitted{high, spec, "ada", ""}));
  REQUIRE(world.ClaimOf(high) != nullptr);
  const std::vector<std::pair<NodeId, JobId>> wanted = {{NodeId(0), high}, {NodeId(1), high}};
  const std::vector<std::pair<NodeId, JobId>> none;
  CHECK(images(world.last.commands) == (contained ? wanted : none));
  // An agent that comes back hears of it, too.
  CHECK(images(Outstanding(world.state, world.policy)) == (contained ? wanted : none));
  world.LetSave();
  REQUIRE(world.Is(high) == JobState::kRunning);
  CHECK(images(Outstanding(world.state, world.policy)).empty());
}

TEST_CASE("nobody else starts on claimed nodes, whatever becomes free") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  world.Finish(world.a);
  const JobId same = world.Submit(AJob().Priority(30));
  const JobId lower = world.Submit(AJob().Priority(10));
  CHECK(world.Is(same) == JobState::kQueued);
  CHECK(world.Is(lower) == JobState::kQueued);
  world.LetSave();
  CHECK(world.Is(high) == JobState::kRunning);
}

TEST_CASE("victims go on when the beneficiary can start elsewhere") {
  FullWorld world(Cluster().Leaf(3));
  const JobId blocker = world.Submit(AJob().Priority(40));
  const JobId high = world.Submit(AJob().Priority(30));
  REQUIRE(world.ClaimOf(high)->victims == std::vector<JobId>{world.b});
  world.Finish(blocker);
  CHECK(world.NodesOf(high) == std::vector<uint32_t>{2});
  CHECK(world.Is(world.b) == JobState::kRunning);
  CHECK(world.At(world.b).attempts.size() == 1);
  CHECK(world.At(world.b).suspensions == 0);
  world.LetSave();
  CHECK(world.Is(world.b) == JobState::kRunning);
}

TEST_CASE("victims go on when the beneficiary is cancelled or held") {
  for (const bool cancelled : {true, false}) {
    FullWorld world;
    const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
    REQUIRE(world.Is(world.a) == JobState::kSaving);
    if (cancelled) {
      world.Cancel(high);
    } else {
      world.Hold(high);
    }
    CHECK(world.Is(world.a) == JobState::kRunning);
    CHECK(world.Is(world.b) == JobState::kRunning);
    world.LetSave();
    CHECK(world.At(world.a).attempts.size() == 1);
    CHECK(world.At(world.a).suspensions == 0);
  }
}

TEST_CASE("a victim whose ranks are parked already leaves, and is queued without a debt") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  world.agents.saves = true;
  (void)world.agents.Progress(world.now);  // both park
  world.Turn(world.agents.TakeReports());
  REQUIRE(world.At(world.a).attempts.back().parked_at.is_set());
  world.Cancel(high);
  world.Run();
  CHECK(world.At(world.a).suspensions == 1);
  CHECK(world.Is(world.a) == JobState::kRunning);
  CHECK(world.At(world.a).attempts.size() == 2);
}

TEST_CASE("a withdrawal that comes too late is a job that left by itself") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  world.agents.saves = true;
  (void)world.agents.Progress(world.now);  // they park, but the report is on its way
  world.Turn({CancelRequested{high, "ada", ""}});
  REQUIRE(world.Is(world.a) == JobState::kRunning);
  world.Run();
  CHECK(world.At(world.a).attempts.front().end_cause == StopCause::kLeft);
  CHECK(world.Is(world.a) == JobState::kRunning);
}

TEST_CASE("a higher class breaks a claim; the loser chooses again") {
  FullWorld world;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  const JobId higher = world.Submit(AJob().Nodes(1).Priority(40));
  REQUIRE(world.ClaimOf(higher) != nullptr);
  CHECK(world.ClaimOf(higher)->victims.empty());  // it takes what is leaving already
  CHECK(world.ClaimOf(high) == nullptr);
  // One victim still leaves, for the higher one; the other goes on: the loser cannot start now.
  const bool a_leaves = world.Is(world.a) == JobState::kSaving;
  CHECK(world.Is(a_leaves ? world.b : world.a) == JobState::kRunning);
  const auto deadline = std::get<Saving>(world.At(a_leaves ? world.a : world.b).phase).deadline;
  CHECK(deadline == world.now + Duration::Seconds(120));
  world.LetSave();
  CHECK(world.Is(higher) == JobState::kRunning);
  CHECK(world.Is(high) == JobState::kQueued);
  world.Finish(higher);
  CHECK(world.Is(high) == JobState::kRunning);
}

TEST_CASE("free nodes that nobody claimed come before claimed ones") {
  World world(Cluster().Zone("A").Leaf(2).Leaf(1));
  const JobId victim = world.Submit(AJob().Priority(0));  // on the smaller leaf: node 2
  REQUIRE(world.NodesOf(victim) == std::vector<uint32_t>{2});
  const JobId filler = world.Submit(AJob().Priority(40));
  REQUIRE(world.NodesOf(filler) == std::vector<uint32_t>{0});
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));  // claims 1 and 2
  REQUIRE(world.ClaimOf(high) != nullptr);
  world.Finish(filler);  // now it starts on 0 and 1 instead
  CHECK(world.NodesOf(high) == std::vector<uint32_t>{0, 1});
  CHECK(world.Is(victim) == JobState::kRunning);
}

TEST_CASE("a claim is not broken while another free node would do") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(1));
  const JobId victim = world.Submit(AJob().Priority(0).Zone("A"));
  const JobId filler = world.Submit(AJob().Priority(50).Zone("B"));
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high) != nullptr);
  world.Turn({});
  world.agents.Exit(filler, 0, ExitReason::kSucceeded, 0, world.now);
  world.Run();
  const JobId highest = world.Submit(AJob().Priority(50));
  CHECK(world.NodesOf(highest) == std::vector<uint32_t>{2});
  CHECK(world.ClaimOf(high) != nullptr);
  CHECK(world.Is(victim) == JobState::kSaving);
}

TEST_CASE("a victim does not run before its beneficiary") {
  World world(Cluster().Leaf(3));
  const JobId a = world.Submit(AJob().Priority(0));
  world.agents.saves = false;
  const JobId slow = world.Submit(AJob().Nodes(2).Priority(0));
  const JobId high = world.Submit(AJob().Nodes(3).Priority(30));
  REQUIRE(world.ClaimOf(high)->victims.size() == 2);
  // One leaves early; a new node appears that it could use.
  world.agents.Exit(a, 0, ExitReason::kSuspended, 85, world.now);
  NodeJoined extra = Cluster().Leaf(4).Joins().back();
  (void)world.Do(extra);
  CHECK(world.Is(a) == JobState::kQueued);
  CHECK(world.Why(a) == Codes{"preempt.yielded"});
  world.agents.saves = true;
  world.Run();
  CHECK(world.Is(high) == JobState::kRunning);
  CHECK(world.Is(a) == JobState::kRunning);  // on the new node, after it
  CHECK(world.Is(slow) == JobState::kQueued);
}

TEST_CASE("a debt is paid once the beneficiary has started, for good") {
  World world(Cluster().Leaf(2));
  const JobId low = world.Submit(AJob().Priority(0));
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.Is(high) == JobState::kRunning);
  CHECK(world.Is(low) == JobState::kQueued);
  world.Xid(1, 79);  // the beneficiary waits again and cannot start
  REQUIRE(world.Is(high) == JobState::kQueued);
  CHECK(world.Is(low) == JobState::kRunning);
}

TEST_CASE("victims of a transaction that broke go on where they can") {
  World world(Cluster().Leaf(2));
  const JobId low = world.Submit(AJob().Priority(0));
  const JobId slow = world.Submit(AJob().Priority(0));
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high)->victims.size() == 2);
  world.agents.Exit(low, 0, ExitReason::kSuspended, 85, world.now);
  world.Run();
  CHECK(world.Why(low) == Codes{"preempt.yielded"});
  world.Xid(1, 79);  // under the other victim: the beneficiary cannot start any more
  CHECK(world.ClaimOf(high) == nullptr);
  CHECK(world.Is(low) == JobState::kRunning);
  CHECK(world.Is(slow) == JobState::kQueued);
  CHECK(world.Why(high) == Codes{"placement.zone_capacity", "nodes.unhealthy"});
}

TEST_CASE("a failing job does not preempt on its retries, but takes what leaves anyway") {
  World world(Cluster().Leaf(1));
  const JobId high = world.Submit(AJob().Priority(30).RetryFailure(3, Duration::Seconds(5)));
  const JobId low = world.Submit(AJob().Priority(0));
  world.Exit(high, 0, ExitReason::kFailed, 1);
  REQUIRE(world.Is(low) == JobState::kRunning);  // it runs while the other backs off
  world.Pass(Duration::Seconds(5));
  CHECK(world.Is(low) == JobState::kRunning);
  CHECK(world.Is(high) == JobState::kQueued);
  CHECK(world.Why(high) == Codes{"placement.zone_capacity"});
  world.agents.saves = false;
  world.Hold(low);
  REQUIRE(world.ClaimOf(high) != nullptr);
  CHECK(world.ClaimOf(high)->victims.empty());
}

TEST_CASE("a retry that takes no nodes keeps nobody of its like from taking them") {
  World world(Cluster().Leaf(1));
  const JobId retry = world.Submit(AJob().Priority(30).RetryFailure(3, Duration::Seconds(5)));
  const JobId low = world.Submit(AJob().Priority(0));
  world.Exit(retry, 0, ExitReason::kFailed, 1);
  world.Pass(Duration::Seconds(5));
  REQUIRE(world.Is(low) == JobState::kRunning);
  const JobId other = world.Submit(AJob().Priority(30));
  CHECK(world.Is(other) == JobState::kRunning);
  CHECK(world.Is(retry) == JobState::kQueued);
}

TEST_CASE("no job preempts its own or a higher class") {
  for (const int32_t running : {10, 20, 50}) {
    World world(Cluster().Leaf(1));
    const JobId first = world.Submit(AJob().Priority(running));
    const JobId next = world.Submit(AJob().Priority(10));
    CHECK(world.Is(first) == JobState::kRunning);
    CHECK(world.ClaimOf(next) == nullptr);
  }
}

TEST_CASE("nodes that are leaving anyway are claimed before anybody is asked to leave") {
  FullWorld world;
  world.Hold(world.b);
  const JobId high = world.Submit(AJob().Priority(30));
  REQUIRE(world.ClaimOf(high) != nullptr);
  CHECK(world.ClaimOf(high)->victims.empty());
  CHECK(world.ClaimOf(high)->nodes == std::vector<NodeId>{NodeId(1)});
  CHECK(world.Is(world.a) == JobState::kRunning);
}

TEST_CASE("a claim moves when one of its nodes is drained, and never strands its victims") {
  FullWorld world(Cluster().Leaf(3));
  const JobId other = world.Submit(AJob().Priority(0));
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high) != nullptr);
  const NodeId claimed = world.ClaimOf(high)->nodes.back();
  world.Drain(claimed.value());
  REQUIRE(world.ClaimOf(high) != nullptr);
  CHECK(std::count(world.ClaimOf(high)->nodes.begin(), world.ClaimOf(high)->nodes.end(), claimed) ==
        0);
  world.LetSave();
  CHECK(world.Is(high) == JobState::kRunning);
  CHECK(world.Is(other) == JobState::kQueued);
}

TEST_CASE("replanning does not give a lower class the nodes in between") {
  World world(Cluster().Leaf(3));
  const JobId a = world.Submit(AJob().Priority(0));
  const JobId b = world.Submit(AJob().Priority(0));
  const JobId c = world.Submit(AJob().Priority(0));
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Nodes(2).Priority(30));
  REQUIRE(world.ClaimOf(high)->victims == std::vector<JobId>{b, c});
  world.agents.Exit(c, 0, ExitReason::kSuspended, 85, world.now);
  world.Run();
  world.Drain(1);  // b's node: high has to choose again, node 2 is idle, c and others want it
  const JobId filler = world.Submit(AJob().Priority(5));
  CHECK(world.Is(filler) == JobState::kQueued);
  CHECK(world.Is(c) == JobState::kQueued);
  CHECK(world.At(c).attempts.size() == 1);
  REQUIRE(world.ClaimOf(high) != nullptr);
  CHECK(world.ClaimOf(high)->victims == std::vector<JobId>{a});
}

}  // namespace tide::testing
