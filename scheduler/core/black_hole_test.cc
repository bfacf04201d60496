#include "scheduler/core/black_hole.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

// Node 0 is the first that a job of one node gets.
struct Hole : World {
  explicit Hole(uint32_t nodes = 3) : World(Cluster().Leaf(nodes)) {}

  // A job that ends with code 1 so long after its start.
  JobId FailAfter(Duration span, const std::string& user, const AJob& job = AJob()) {
    const JobId id = Submit(job, user);
    REQUIRE(Is(id) == JobState::kRunning);
    now = now + span;
    Exit(id, 0, ExitReason::kFailed, 1);
    return id;
  }
  [[nodiscard]] bool Suspected() const {
    return std::ranges::any_of(state.incidents, [](const auto& each) {
      return each.second.kind == FaultKind::kBlackHole;
    });
  }
};

constexpr Duration kSoon = Duration::Seconds(3);

}  // namespace

TEST_CASE("black hole: at the second user's job it is out, and that job goes on elsewhere") {
  Hole world;
  const JobId first = world.FailAfter(kSoon, "ann");
  CHECK(world.Is(first) == JobState::kFinished);
  CHECK_FALSE(world.Suspected());
  world.now = world.now + Duration::Minutes(2);
  const JobId second = world.FailAfter(kSoon, "bob");
  REQUIRE(world.Suspected());
  CHECK_FALSE(IsInService(world.state.nodes[0]));
  CHECK(world.Is(second) == JobState::kRunning);
  CHECK(world.NodesOf(second) != std::vector<uint32_t>{0});
  CHECK(world.At(second).attempts.front().end_cause == StopCause::kFault);
  CHECK(world.At(second).failure_restarts == 0);
  world.Pass(Duration::Minutes(3));  // proven by validators
  CHECK(world.NodeIs(0) == NodeState::kProbation);
  CHECK(world.state.nodes[0].quick_failures.empty());
}

TEST_CASE("black hole: of a gang the node counts on which a rank failed first") {
  Hole world(3);
  const AJob gang = AJob().Nodes(3);
  world.FailAfter(kSoon, "ann", gang);
  world.Pass(Duration::Seconds(5));  // a fault might have explained it
  const JobId second = world.FailAfter(kSoon, "bob", gang);
  CHECK_FALSE(IsInService(world.state.nodes[0]));
  CHECK(IsInService(world.state.nodes[1]));
  CHECK(world.Is(second) == JobState::kQueued);
}

TEST_CASE("black hole: what may be the jobs' own doing says nothing of the node") {
  Hole world;
  SECTION("one user's") {
    world.FailAfter(kSoon, "ann");
    world.FailAfter(kSoon, "ann");
  }
  SECTION("it took a while") {
    world.FailAfter(kSoon, "ann");
    world.FailAfter(kQuickFailure + Duration::Seconds(1), "bob");
  }
  SECTION("long apart") {
    world.FailAfter(kSoon, "ann");
    world.now = world.now + kQuickFailuresCount;
    world.FailAfter(kSoon, "bob");
  }
  SECTION("another one ran there meanwhile") {
    world.FailAfter(kSoon, "ann");
    const JobId well = world.Submit(AJob(), "eve");
    REQUIRE(world.NodesOf(well) == std::vector<uint32_t>{0});
    world.now = world.now + kRanWell;
    world.Finish(well);
    world.FailAfter(kSoon, "bob");
  }
  SECTION("another one runs there well beside it") {
    const JobId well = world.Submit(AJob().Gpus(4), "eve");
    world.now = world.now + kRanWell;
    world.FailAfter(kSoon, "ann", AJob().Gpus(2));
    world.FailAfter(kSoon, "bob", AJob().Gpus(2));
    CHECK(world.Is(well) == JobState::kRunning);
  }
  SECTION("one of them fails elsewhere as well") {
    const JobId busy = world.Submit(AJob(), "eve");
    REQUIRE(world.NodesOf(busy) == std::vector<uint32_t>{0});
    world.FailAfter(kSoon, "bob");
    world.Cancel(busy);
    world.FailAfter(kSoon, "ann");
    world.FailAfter(kSoon, "bob");
  }
  CHECK_FALSE(world.Suspected());
  CHECK(IsInService(world.state.nodes[0]));
}

TEST_CASE("black hole: an operator gives it back without proof") {
  Hole world;
  world.policy.faults.return_after = Duration();
  world.FailAfter(kSoon, "ann");
  world.FailAfter(kSoon, "bob");
  REQUIRE_FALSE(IsInService(world.state.nodes[0]));
  world.Undrain(0);
  CHECK(IsInService(world.state.nodes[0]));
}

}  // namespace tide::testing
