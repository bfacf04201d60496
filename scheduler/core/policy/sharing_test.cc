// Turns inside a class: who leaves for whom, and when (docs/adr/0013).

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

// `victim` has run so long when somebody else submits a job of one node, who then waits so long.
bool LeavesFor(const AJob& running, Duration ran, Duration waited) {
  World world(Cluster().Leaf(1));
  const JobId victim = world.Submit(running, "bob");
  world.Pass(ran);
  const JobId job = world.Submit(AJob(), "eve");
  world.Pass(waited);
  CHECK((world.Is(job) == JobState::kRunning) == (world.Is(victim) == JobState::kQueued));
  return world.Is(job) == JobState::kRunning;
}

constexpr Duration kLong = Duration::Minutes(20 * 60);
constexpr Duration kJust = Duration::Seconds(1);

}  // namespace

TEST_CASE("a job waits a minimum run before others of its class leave for it") {
  const Policy policy;
  CHECK_FALSE(LeavesFor(AJob(), kLong, policy.minimum_run - kJust));
  CHECK(LeavesFor(AJob(), kLong, policy.minimum_run + Duration::Minutes(1)));
  CHECK(LeavesFor(AJob().Priority(0), Duration(), Duration()));  // a lower class leaves at once
}

TEST_CASE("who leaves has had its slice") {
  const Duration slice = Duration::Minutes(100);
  CHECK_FALSE(LeavesFor(AJob(), slice - Duration::Minutes(30), Duration::Minutes(29)));
  CHECK(LeavesFor(AJob(), slice - Duration::Minutes(30), Duration::Minutes(31)));
}

TEST_CASE("nodes that free up while it waits are taken, and nobody leaves") {
  World world(Cluster().Leaf(2));
  const JobId stays = world.Submit(AJob(), "bob");
  const JobId ends = world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId job = world.Submit(AJob(), "eve");
  world.Pass(Duration::Minutes(5));
  world.Finish(ends);
  CHECK(world.Is(job) == JobState::kRunning);
  world.Pass(Duration::Minutes(60));
  CHECK(world.Is(stays) == JobState::kRunning);
}

TEST_CASE("two jobs of two owners take turns, less and less often") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob(), "bob");
  world.Pass(Duration::Minutes(60 * 4));
  const JobId second = world.Submit(AJob(), "eve");
  std::vector<Duration> turns;
  Instant since = world.now;
  for (JobId runs = first; turns.size() < 4;) {
    world.Pass(Duration::Minutes(5));
    const JobId other = runs == first ? second : first;
    if (world.Is(other) == JobState::kRunning) {
      turns.push_back(world.now - std::exchange(since, world.now));
      runs = other;
    }
    REQUIRE(world.now - since < Duration::Minutes(60 * 24));
  }
  CHECK(turns[0] <= Duration::Minutes(20));  // who has just come does not wait for long
  CHECK(turns[1] > Duration::Minutes(60));
  CHECK(turns[2] > turns[1]);
  CHECK(turns[3] > turns[2]);
}

TEST_CASE("who was suspended does not wait anew: what it waited before counts") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob(), "bob");
  world.Pass(Duration::Minutes(200));
  const JobId high = world.Submit(AJob().Priority(30), "ann");
  world.Pass(Duration::Minutes(100));
  world.Finish(high);
  REQUIRE(world.Is(job) == JobState::kRunning);
  const int64_t slowdown = SlowdownOf(world.At(job)).At(world.now, world.policy.minimum_run);
  CHECK(slowdown > kNotSlowed * 14 / 10);
  const JobId held = world.Submit(AJob(), "dan");
  world.Hold(held);
  world.Pass(Duration::Minutes(300));  // held is not waiting
  world.Release(held);
  CHECK(SlowdownOf(world.At(held)).At(world.now, world.policy.minimum_run) == kNotSlowed);
}

TEST_CASE("a gang takes its turn from many at once") {
  for (const uint32_t nodes_each : {1U, 2U}) {
    World world(Cluster().Leaf(2));
    for (uint32_t nodes = 0; nodes < 2; nodes += nodes_each) {
      (void)world.Submit(AJob().Nodes(nodes_each), "bob");
    }
    world.Pass(kLong);
    const JobId gang = world.Submit(AJob().Nodes(2), "eve");
    world.Pass(world.policy.minimum_run + Duration::Minutes(2));
    CHECK(world.Is(gang) == JobState::kRunning);
  }
}

TEST_CASE("those of lower classes leave at once, however many they are") {
  World world(Cluster().Leaf(4));
  for (int i = 0; i < 4; ++i) {
    (void)world.Submit(AJob().Priority(0), "bob");
  }
  CHECK(world.Is(world.Submit(AJob().Nodes(4), "eve")) == JobState::kRunning);
}

TEST_CASE("who has waited longer is not refused with one before it") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob(), "bob");
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId first = world.Submit(AJob().Nodes(2), "eve");
  const JobId second = world.Submit(AJob().Nodes(2), "eve");
  world.Pass(Duration::Minutes(10));
  world.Hold(first);
  world.Release(first);  // waits anew
  world.Pass(Duration::Minutes(10));
  CHECK(world.Is(first) == JobState::kQueued);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("who holds less is not refused with one who holds more") {
  World world(Cluster().Leaf(3));
  (void)world.Submit(AJob(), "ann");
  (void)world.Submit(AJob(), "ann");
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId first = world.Submit(AJob(), "ann");  // he used most, and is looked at last
  const JobId second = world.Submit(AJob(), "bob");
  world.Pass(world.policy.minimum_run + Duration::Minutes(2));
  CHECK(world.Is(second) == JobState::kRunning);
  CHECK(world.At(first).suspensions == 0);
}

TEST_CASE("what starts while a gang waits leaves for it, and is told so") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob(), "ann");
  const JobId ends = world.Submit(AJob(), "ann");
  const JobId gang = world.Submit(AJob().Nodes(2), "eve");
  world.Pass(Duration::Minutes(1));
  world.Finish(ends);
  const JobId small = world.Submit(AJob(), "bob");
  REQUIRE(world.Is(small) == JobState::kRunning);
  world.Pass(world.policy.minimum_run * 2);
  CHECK(world.Is(small) == JobState::kRunning);  // one node does not help the gang
  world.Finish(world.state.jobs.begin()->first);
  CHECK(world.Is(gang) == JobState::kRunning);
  CHECK(world.Is(small) == JobState::kQueued);
  CHECK(world.At(small).attempts.back().end_detail ==
        "gives its nodes to j-" + std::to_string(gang.value()) +
            " (normal), which has waited since before it started");
}

TEST_CASE("a gang that may cross has others leave in one zone, if one holds it") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  for (const char* zone : {"A", "B", "A", "B"}) {
    (void)world.Submit(AJob().Zone(zone).Priority(0), "bob");
    world.Pass(kJust);
  }
  const JobId gang = world.Submit(AJob().Nodes(2).Zone("cross-ok").Priority(30), "eve");
  REQUIRE(world.Is(gang) == JobState::kRunning);
  CHECK(world.state.crossing.empty());
}

TEST_CASE("two that waited equally long do not take the same node from each other at once") {
  World world(Cluster().Leaf(2));
  for (const char* user : {"ann", "bob"}) {
    const JobId before = world.Submit(AJob(), user);
    world.Pass(Duration::Minutes(60));
    world.Finish(before);
  }
  (void)world.Submit(AJob().Priority(30), "dan");
  const JobId ends = world.Submit(AJob().Priority(30), "dan");
  (void)world.Submit(AJob().Nodes(2), "eve");  // who starts passes it
  const JobId first = world.Submit(AJob(), "ann");
  const JobId second = world.Submit(AJob(), "bob");
  world.Pass(Duration::Minutes(49 * 60));
  world.Finish(ends);
  REQUIRE((world.Is(first) == JobState::kRunning) != (world.Is(second) == JobState::kRunning));
  world.Pass(world.policy.minimum_run - kJust);
  CHECK(world.At(first).suspensions + world.At(second).suspensions == 0);
}

TEST_CASE("no gang leaves for a job of one node where another job will do") {
  World world(Cluster().Leaf(5));
  const JobId gang = world.Submit(AJob().Nodes(4).Priority(0), "bob");
  world.Pass(Duration::Minutes(1));
  const JobId small = world.Submit(AJob().Priority(0), "bob");
  world.Pass(kLong);
  (void)world.Submit(AJob().Priority(30), "eve");
  CHECK(world.Is(gang) == JobState::kRunning);
  CHECK(world.Is(small) == JobState::kQueued);
}

TEST_CASE("one job leaves rather than four that have as many GPUs together") {
  World world(Cluster().Leaf(2));
  for (int i = 0; i < 8; ++i) {
    (void)world.Submit(AJob().Gpus(1).Priority(0), "bob");
  }
  const JobId large = world.Submit(AJob().Gpus(4).Priority(0), "bob");
  (void)world.Submit(AJob().Gpus(4).Priority(0), "bob");
  world.Pass(kLong);
  const JobId job = world.Submit(AJob().Gpus(4).Priority(30), "eve");
  REQUIRE(world.Is(job) == JobState::kRunning);
  size_t left = 0;
  for (const auto& [id, each] : world.state.jobs) {
    left += each.suspensions;
  }
  CHECK(left == 1);
  CHECK(world.At(large).suspensions + world.At(JobId(10)).suspensions == 1);
}

TEST_CASE("a gang gets its nodes although small jobs of others never end") {
  World world(Cluster().Leaf(4));
  for (const char* user : {"u1", "u2", "u3", "u4"}) {
    (void)world.Submit(AJob(), user);
  }
  const JobId gang = world.Submit(AJob().Nodes(4), "eve");
  // Each hour somebody new comes, and somebody who has been there leaves.
  for (int hour = 0; hour < 60 && world.Is(gang) != JobState::kRunning; ++hour) {
    const JobId oldest = *world.state.live.begin();
    (void)world.Submit(AJob(), "new" + std::to_string(hour));
    world.Pass(Duration::Minutes(60));
    if (world.Is(oldest) == JobState::kRunning && oldest != gang) {
      world.Finish(oldest);
    }
  }
  CHECK(world.Is(gang) == JobState::kRunning);
}

TEST_CASE("the weight of a project does not change who of it gives way") {
  for (const int64_t weight : {1, 6}) {
    World world(Cluster().Leaf(2));
    world.policy.projects["llm"] = {"", weight};
    (void)world.Submit(AJob().Nodes(2).Project("llm"), "bob");
    world.Pass(kLong);
    const JobId job = world.Submit(AJob().Nodes(2).Project("llm"), "eve");
    world.Pass(world.policy.minimum_run + Duration::Minutes(2));
    CHECK(world.Is(job) == JobState::kRunning);
  }
}

TEST_CASE("a job for small nodes starts beside one that waits for large ones") {
  World world(Cluster().Gpus(8).Leaf(2).Gpus(4).Leaf(2));
  (void)world.Submit(AJob().Nodes(2).Gpus(8).Priority(50), "ada");
  const JobId large = world.Submit(AJob().Nodes(2).Gpus(8), "bob");
  CHECK(world.Is(large) == JobState::kQueued);
  const JobId small = world.Submit(AJob().Nodes(2).Gpus(4), "bob");
  CHECK(world.Is(small) == JobState::kRunning);
}

TEST_CASE("nobody takes turns with himself, not from another project either") {
  World world(Cluster().Leaf(1));
  const JobId running = world.Submit(AJob().Project("llm"), "bob");
  world.Pass(kLong);
  const JobId own = world.Submit(AJob().Project("vision"), "bob");
  world.Pass(world.policy.minimum_run + Duration::Minutes(2));
  CHECK(world.Is(running) == JobState::kRunning);
  // Another user, who has used no less, is not refused because he was.
  const JobId other = world.Submit(AJob().Project("vision"), "eve");
  world.Pass(world.policy.minimum_run + Duration::Minutes(2));
  CHECK(world.Is(other) == JobState::kRunning);
  CHECK(world.Is(own) == JobState::kQueued);
}

TEST_CASE("a job that failed once takes turns again after it has run") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().RetryFailure(2), "eve");
  world.Exit(job, 0, ExitReason::kFailed, 1);
  world.Pass(Duration::Minutes(1));
  REQUIRE(world.At(job).attempts.size() == 2);
  world.Hold(job);
  const JobId other = world.Submit(AJob().Priority(0), "bob");
  REQUIRE(world.Is(other) == JobState::kRunning);
  world.Release(job);
  CHECK(world.Is(job) == JobState::kRunning);
  CHECK(world.Is(other) == JobState::kQueued);
}

TEST_CASE("the scheduler wakes when a job begins to ask for its turn") {
  World world(Cluster().Leaf(1));
  world.policy.review = kLong;
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  (void)world.Submit(AJob(), "eve");
  CHECK(world.last.wake_at == world.now + world.policy.minimum_run);
}

}  // namespace tide::testing
