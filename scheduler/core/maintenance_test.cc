// Drains with a deadline, and maintenances that begin and end by themselves.

#include <catch2/catch.hpp>

#include "scheduler/core/requests.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using Reasons = std::vector<std::string>;

Instant InMinutes(const World& world, int64_t minutes) {
  return world.now + Duration::Minutes(minutes);
}

// Node 0, from so many minutes from now to so many.
Result<Applied> Plan(World& world, int64_t from, int64_t until) {
  return world.Do(
      MaintenancePlanned{NodeId(0), InMinutes(world, from), InMinutes(world, until), "op", "fans"});
}

std::string ErrorOf(const World& world, NodeOrder order) {
  const BatchContext context(world.state, world.now);
  order.node = world.state.nodes[0].identity.name;
  order.reason = "fans";
  const auto made = MakeNodeOrder(context, order);
  return made ? "" : made.error().message;
}

Moment In(int64_t minutes) {
  return {{}, Duration::Minutes(minutes)};
}

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("with a deadline jobs go on until then, and leave as in any drain") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  REQUIRE(world.Do(DrainRequested{NodeId(0), "op", "cable", InMinutes(world, 30)}));
  CHECK(world.NodeIs(0) == NodeState::kDraining);
  const JobId next = world.Submit(AJob());
  CHECK(world.NodesOf(next) == std::vector<uint32_t>{1});  // nothing new starts there
  world.Cancel(next);
  CHECK(world.last.wake_at <= InMinutes(world, 30));
  world.Pass(Duration::Minutes(29));
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{0});
  world.Pass(Duration::Minutes(2));
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(world.At(job).attempts.front().end_cause == StopCause::kDrained);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK_FALSE(world.state.nodes[0].jobs_leave_at.is_set());
}

TEST_CASE("a deadline is moved by the next drain, and gone with the drain") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  REQUIRE(world.Do(DrainRequested{NodeId(0), "op", "cable", InMinutes(world, 30)}));
  SECTION("later") {
    REQUIRE(world.Do(DrainRequested{NodeId(0), "op", "cable", InMinutes(world, 60)}));
    world.Pass(Duration::Minutes(45));
    CHECK(world.NodesOf(job) == std::vector<uint32_t>{0});
  }
  SECTION("to now") {
    world.Drain(0);
    CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  }
  SECTION("undrained: nothing leaves at the deadline of before") {
    world.Undrain(0);
    world.Pass(Duration::Minutes(45));
    CHECK(world.NodesOf(job) == std::vector<uint32_t>{0});
    CHECK_FALSE(world.state.nodes[0].jobs_leave_at.is_set());
  }
}

TEST_CASE("a job that does not leave at the deadline is ended after its notice") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().Notice(Duration::Seconds(60)));
  world.agents.saves = false;
  REQUIRE(world.Do(DrainRequested{NodeId(0), "op", "cable", InMinutes(world, 10)}));
  world.Pass(Duration::Minutes(10));
  CHECK(world.Is(job) == JobState::kSaving);
  world.Pass(Duration::Minutes(2));
  CHECK(world.Is(job) == JobState::kQueued);
  CHECK(world.NodeIs(0) == NodeState::kDrained);
}

TEST_CASE("before a maintenance nothing starts whose time limit would run into it") {
  World world(Cluster().Leaf(1));
  REQUIRE(Plan(world, 60, 120));
  CHECK(world.NodeIs(0) == NodeState::kReady);
  const JobId lasting = world.Submit(AJob().MaxRuntime(Duration::Minutes(90)));
  CHECK(world.Is(lasting) == JobState::kQueued);
  CHECK(world.Why(lasting) == Reasons{"nodes.maintenance"});
  const Reason why = world.ReasonsOf(lasting).front();
  CHECK(why.count == 1);
  CHECK(why.until == InMinutes(world, 60));
  SECTION("one that ends before starts, and is not held up by the other") {
    const JobId brief = world.Submit(AJob().MaxRuntime(Duration::Minutes(60)));
    CHECK(world.Is(brief) == JobState::kRunning);
  }
  SECTION("what counts is how much of the limit is left") {
    const JobId late = world.Submit(AJob().MaxRuntime(Duration::Minutes(61)));
    CHECK(world.Is(late) == JobState::kQueued);
    REQUIRE(Plan(world, 61, 120));
    CHECK(world.Is(late) == JobState::kRunning);
  }
  SECTION("one without a limit starts, and leaves when it begins") {
    const JobId endless = world.Submit(AJob());
    CHECK(world.Is(endless) == JobState::kRunning);
    world.Pass(Duration::Minutes(61));
    CHECK(world.Is(endless) == JobState::kQueued);
    CHECK(world.At(endless).attempts.front().end_cause == StopCause::kDrained);
    CHECK(world.NodeIs(0) == NodeState::kDrained);
  }
  SECTION("a part of the node is kept free as well") {
    CHECK(world.Why(world.Submit(AJob().Gpus(1).MaxRuntime(Duration::Minutes(90)))) ==
          Reasons{"nodes.maintenance", "order.ahead"});
    const JobId brief = world.Submit(AJob().Gpus(1).MaxRuntime(Duration::Minutes(30)));
    CHECK(world.Is(brief) == JobState::kRunning);
    const JobId beside = world.Submit(AJob().Gpus(1).MaxRuntime(Duration::Minutes(90)));
    CHECK(world.Is(beside) == JobState::kQueued);
  }
  SECTION("after its end the job starts by itself") {
    world.Pass(Duration::Minutes(119));
    CHECK(world.Is(lasting) == JobState::kQueued);
    CHECK(world.Why(lasting) != Reasons{"nodes.maintenance"});  // the node is out of service now
    world.Pass(Duration::Minutes(2));
    CHECK(world.Is(lasting) == JobState::kRunning);
  }
  SECTION("undrain cancels it") {
    world.Undrain(0);
    CHECK(world.Is(lasting) == JobState::kRunning);
    CHECK_FALSE(world.state.nodes[0].maintenance.begins_at.is_set());
  }
}

TEST_CASE("an advice before a maintenance starts the job") {
  World world(Cluster().Leaf(3));
  for (uint32_t node = 0; node < 3; ++node) {
    REQUIRE(world.Do(MaintenancePlanned{
        NodeId(node), InMinutes(world, 30 + 10 * node), InMinutes(world, 90), "op", "fans"}));
  }
  const JobId job = world.Submit(AJob().Nodes(2).MaxRuntime(Duration::Minutes(70)));
  REQUIRE(world.Why(job) == Reasons{"nodes.maintenance"});
  const Reason why = world.ReasonsOf(job).front();
  CHECK(why.count == 3);
  CHECK(why.until == InMinutes(world, 40));  // then nodes 1 and 2 will do
  CHECK(world.Is(world.Submit(AJob().Nodes(2).MaxRuntime(why.until - world.now))) ==
        JobState::kRunning);
}

TEST_CASE("a job waits for what runs, not for a maintenance, where that alone would not do") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob());
  REQUIRE(Plan(world, 60, 120));
  const JobId gang = world.Submit(AJob().Nodes(2).MaxRuntime(Duration::Minutes(90)));
  CHECK(world.Why(gang).front() == "placement.zone_capacity");
}

TEST_CASE("nobody is asked to leave a node for a job that would run into its maintenance") {
  World world(Cluster().Leaf(1));
  const JobId low = world.Submit(AJob().Priority(0));
  REQUIRE(Plan(world, 60, 120));
  const JobId lasting = world.Submit(AJob().Priority(30).MaxRuntime(Duration::Minutes(90)));
  CHECK(world.Is(low) == JobState::kRunning);
  CHECK(world.ClaimOf(lasting) == nullptr);
  CHECK_FALSE(world.ReasonsOf(lasting).front().open_priority);
  CHECK(world.Is(world.Submit(AJob().Priority(30).MaxRuntime(Duration::Minutes(9)))) ==
        JobState::kRunning);
}

TEST_CASE("a maintenance begins and ends by itself") {
  World world(Cluster().Leaf(2));
  const JobId job = world.Submit(AJob());
  REQUIRE(Plan(world, 60, 120));
  world.Pass(Duration::Minutes(61));
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
  CHECK(world.NodeIs(0) == NodeState::kDrained);
  CHECK(world.state.nodes[0].actor == "op");
  CHECK(Says(world.state.nodes[0].reason, "fans"));
  SECTION("and gives the node back") {
    world.Pass(Duration::Minutes(60));
    CHECK(world.NodeIs(0) == NodeState::kReady);
    CHECK(world.state.nodes[0].reason.empty());
    CHECK(world.state.nodes[0].maintenance == Maintenance());
  }
  SECTION("a new leader knows it from the log") {
    ClusterState replayed;
    for (const Event& event : world.log) {
      REQUIRE(Apply(replayed, event));
    }
    CHECK(DifferenceOfRows(world.state, replayed).empty());
  }
  SECTION("an operator's end comes first") {
    world.Undrain(0);
    CHECK(world.NodeIs(0) == NodeState::kReady);
    world.Pass(Duration::Minutes(90));
    CHECK(world.NodeIs(0) == NodeState::kReady);
  }
  SECTION("an operator's hold outlasts it") {
    world.Drain(0);
    world.Pass(Duration::Minutes(90));
    CHECK(world.NodeIs(0) == NodeState::kDrained);
  }
  SECTION("its end can be moved, its beginning not") {
    CHECK_FALSE(Plan(world, 10, 20));
    REQUIRE(Plan(world, 0, 180));
    world.Pass(Duration::Minutes(179));
    CHECK(world.NodeIs(0) == NodeState::kDrained);
    world.Pass(Duration::Minutes(2));
    CHECK(world.NodeIs(0) == NodeState::kReady);
  }
  SECTION("a machine that is away is given back when it is heard again") {
    world.Lose(0);
    world.Pass(Duration::Minutes(90));
    CHECK(world.NodeIs(0) == NodeState::kDrained);
    world.Rejoin(0);
    CHECK(world.NodeIs(0) == NodeState::kReady);
  }
  SECTION("a fault meanwhile is automation's afterwards: it comes back by proof") {
    world.agents.validates = true;
    world.Xid(0, 79);
    CHECK(world.NodeIs(0) == NodeState::kQuarantined);
    CHECK(world.state.nodes[0].actor == "op");
    world.Pass(Duration::Minutes(58));
    CHECK(world.NodeIs(0) == NodeState::kQuarantined);
    world.Pass(Duration::Minutes(20));
    CHECK((world.NodeIs(0) == NodeState::kProbation || world.NodeIs(0) == NodeState::kReady));
  }
  SECTION("a validation that runs at its end leads back to work") {
    world.agents.validates = false;
    world.Validate(0);
    REQUIRE(world.NodeIs(0) == NodeState::kValidating);
    world.Pass(Duration::Minutes(60));
    world.agents.validates = true;
    world.Run();
    CHECK(world.NodeIs(0) == NodeState::kProbation);
  }
}

TEST_CASE("a node that a person has drained stays so through a maintenance") {
  World world(Cluster().Leaf(1));
  REQUIRE(Plan(world, 60, 120));
  world.Drain(0);
  world.Pass(Duration::Minutes(61));
  CHECK(world.state.nodes[0].maintenance == Maintenance());
  world.Pass(Duration::Minutes(90));
  CHECK(world.NodeIs(0) == NodeState::kDrained);
}

TEST_CASE("times of a drain that make no sense are refused, with what to do") {
  const World world(Cluster().Leaf(1));
  const Instant past = world.now - Duration::Seconds(1);
  const Moment far{Instant::Never(), {}};
  const auto deadline = [&](Moment at) {
    NodeOrder order;
    order.deadline = at;
    return ErrorOf(world, order);
  };
  const auto between = [&](std::optional<Moment> from, std::optional<Moment> until) {
    NodeOrder order;
    order.from = from;
    order.until = until;
    return ErrorOf(world, order);
  };
  CHECK(deadline(In(30)).empty());
  CHECK(Says(deadline(In(0)), "leave it out for at once"));
  CHECK(Says(deadline({{}, Duration::Minutes(-5)}), "leave it out for at once"));
  CHECK(Says(deadline({past, {}}), "is over"));
  CHECK(Says(deadline({Instant::FromUnixNanos(INT64_MIN), {}}), "is over"));
  CHECK(Says(deadline(far), "more than a year ahead"));
  CHECK(Says(deadline({{}, Duration::Nanos(INT64_MAX)}), "more than a year ahead"));
  CHECK(between(In(60), In(120)).empty());
  CHECK(between(std::nullopt, In(120)).empty());
  CHECK(Says(between(In(60), std::nullopt), "when does the maintenance end"));
  CHECK(Says(between(In(60), In(60)), "begin only at"));
  CHECK(Says(between(In(120), In(60)), "begin only at"));
  CHECK(Says(between(Moment{past, {}}, In(60)), "from:"));
  CHECK(Says(between(std::nullopt, Moment{past, {}}), "until:"));
  CHECK(Says(between(In(60), far), "more than a year ahead"));
  NodeOrder both;
  both.deadline = In(30);
  both.until = In(60);
  CHECK(Says(ErrorOf(world, both), "either"));
}

}  // namespace tide::testing
