// Order and starting: scheduling.md sections 2 and 4, without preemption.

#include <catch2/catch.hpp>

#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

using Codes = std::vector<std::string>;

}  // namespace

TEST_CASE("a job starts as a whole, or not at all") {
  World world(Cluster().Leaf(3));
  const JobId two = world.Submit(AJob().Nodes(2));
  const JobId other = world.Submit(AJob().Nodes(2));
  CHECK(world.NodesOf(two) == std::vector<uint32_t>{0, 1});
  CHECK(world.Is(other) == JobState::kQueued);
  CHECK(world.Why(other) == Codes{"placement.zone_capacity"});
  world.Finish(two);
  CHECK(world.Is(other) == JobState::kRunning);
}

TEST_CASE("classes are strict, inside a class first come is first served") {
  World world(Cluster().Leaf(1));
  const JobId running = world.Submit(AJob().Priority(50));
  const JobId low = world.Submit(AJob().Priority(0));
  const JobId first = world.Submit(AJob().Priority(20));
  const JobId second = world.Submit(AJob().Priority(20));
  const JobId high = world.Submit(AJob().Priority(40));
  std::vector<JobId> order;
  for (JobId current = running; order.size() < 4;) {
    world.Finish(current);
    REQUIRE(world.state.live.size() == 1);
    current = *world.state.live.begin();
    order.push_back(current);
  }
  CHECK(order == std::vector<JobId>{high, first, second, low});
}

TEST_CASE("who overtakes inside a class gives back what it took") {
  World world(Cluster().Leaf(4));
  const JobId running = world.Submit(AJob().Nodes(3));
  const JobId big = world.Submit(AJob().Nodes(4));
  const JobId small = world.Submit(AJob());
  CHECK(world.Why(big) == Codes{"placement.zone_capacity"});
  CHECK(world.Is(small) == JobState::kRunning);  // nothing stands idle
  CHECK(world.At(small).attempts.back().opportunistic);
  CHECK_FALSE(world.At(running).attempts.back().opportunistic);
  world.Finish(running);
  CHECK(world.Is(big) == JobState::kQueued);
  world.Pass(Duration::Minutes(60));
  CHECK(world.Is(big) == JobState::kRunning);
  CHECK(world.Is(small) == JobState::kQueued);
  CHECK(world.CauseOf(small) == "preempted");
}

TEST_CASE("a lower class may use what is left over") {
  World world(Cluster().Leaf(4));
  const JobId running = world.Submit(AJob().Nodes(3));
  const JobId big = world.Submit(AJob().Nodes(4));
  const JobId filler = world.Submit(AJob().Priority(0));
  CHECK(world.Is(filler) == JobState::kRunning);
  CHECK(world.Is(big) == JobState::kQueued);
  world.Finish(running);  // and the filler does not keep the big one waiting
  CHECK(world.Is(big) == JobState::kRunning);
  CHECK(world.Is(filler) == JobState::kQueued);
}

TEST_CASE("what a pass gives to one owner counts before the next is looked at") {
  World world(Cluster().Leaf(2));
  std::vector<EventBody> bodies;
  for (const uint64_t id : {1U, 2U, 3U, 4U}) {
    bodies.emplace_back(JobSubmitted{JobId(id), AJob().Spec(), id < 3 ? "ada" : "bob", ""});
  }
  world.Turn(bodies);
  CHECK(world.state.live == std::set<JobId>{JobId(1), JobId(3)});
}

TEST_CASE("groups do not wait for each other") {
  World world(Cluster().Leaf(1).Group("cpu").Leaf(1));
  (void)world.Submit(AJob());
  (void)world.Submit(AJob());
  const JobId other_pool = world.Submit(AJob().Group("cpu").Gpus(0));
  CHECK(world.Is(other_pool) == JobState::kRunning);
}

TEST_CASE("jobs of a removed user run to their next stop, and start no more") {
  World world(Cluster().Leaf(1));
  const JobId runs = world.Submit(AJob().Priority(20));
  const JobId waits = world.Submit(AJob().Priority(20));
  const JobId of_bob = world.Submit(AJob().Priority(20), "bob");
  world.policy.removed_users = {"ada"};
  world.Turn({});
  CHECK(world.Is(runs) == JobState::kRunning);
  CHECK(world.Is(waits) == JobState::kHeld);
  CHECK(world.Is(of_bob) == JobState::kQueued);
  CHECK(world.At(waits).detail == "suspended by tide: user ada was removed");
  // Suspended for another, it stays where it is.
  const JobId above = world.Submit(AJob().Priority(30), "bob");
  REQUIRE(world.Is(above) == JobState::kRunning);
  CHECK(world.Is(runs) == JobState::kHeld);
  world.Finish(above);
  world.Finish(of_bob);
  CHECK(world.state.live.empty());
  // A resume changes nothing, until she is there again.
  world.Release(runs);
  CHECK(world.Is(runs) == JobState::kHeld);
  world.policy.removed_users.clear();
  world.Release(runs);
  CHECK(world.Is(runs) == JobState::kRunning);
}

TEST_CASE("one job crosses zones at a time") {
  World world(Cluster().Zone("A").Leaf(4).Zone("B").Leaf(4));
  const JobId first = world.Submit(AJob().Nodes(5).Zone("cross-ok"));
  REQUIRE(world.Is(first) == JobState::kRunning);
  (void)world.Submit(AJob().Nodes(2));
  const JobId second = world.Submit(AJob().Nodes(5).Zone("cross-ok"));
  CHECK(world.Why(second) == Codes{"placement.zone_capacity"});
  world.policy.cross_zone_jobs_max = 0;
  world.Finish(first);
  CHECK(world.Is(second) == JobState::kQueued);
  CHECK(world.Why(second) == Codes{"placement.cross_zone_busy", "placement.zone_capacity"});
  world.policy.cross_zone_jobs_max = 1;
  world.Turn({});
  CHECK(world.Is(second) == JobState::kStarting);
}

TEST_CASE("an attempt gets a port of its first node and another one at the next start") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().RetryFailure(1, Duration()));
  world.Exit(job, 0, ExitReason::kFailed, 1);
  REQUIRE(world.At(job).attempts.size() == 2);
  const uint32_t first = world.At(job).attempts[0].master_port;
  const uint32_t second = world.At(job).attempts[1].master_port;
  CHECK(first >= 20000);
  CHECK(second <= 20099);
  CHECK(first != second);
}

TEST_CASE("a job running again prefers the nodes it had") {
  World world(Cluster().Leaf(3));
  const JobId other = world.Submit(AJob());
  const JobId job = world.Submit(AJob());
  REQUIRE(world.NodesOf(job) == std::vector<uint32_t>{1});
  world.Hold(job);
  world.Finish(other);
  world.Release(job);
  CHECK(world.NodesOf(job) == std::vector<uint32_t>{1});
}

TEST_CASE("a job prefers nodes that have its image, for whole nodes and for parts") {
  World world(Cluster().Gpus(8).Leaf(4));
  world.state.warm.Set(NodeId(1), {"train:1"});
  world.state.warm.Set(NodeId(2), {"train:1"});
  CHECK(world.NodesOf(world.Submit(AJob().Gpus(8).Image("train:1"))) == std::vector<uint32_t>{1});
  // Nodes that are in part taken come before whole ones, among them those with the image.
  REQUIRE(world.NodesOf(world.Submit(AJob().Gpus(6))) == std::vector<uint32_t>{0});
  REQUIRE(world.NodesOf(world.Submit(AJob().Gpus(6))) == std::vector<uint32_t>{2});
  CHECK(world.NodesOf(world.Submit(AJob().Gpus(1).Image("train:1"))) == std::vector<uint32_t>{2});
  CHECK(world.NodesOf(world.Submit(AJob().Gpus(2))) == std::vector<uint32_t>{0});
}

TEST_CASE("the next moment to decide is the nearest deadline") {
  World world(Cluster().Leaf(2));
  CHECK(world.last.wake_at == Instant::Never());
  const JobId job = world.Submit(AJob().MaxRuntime(Duration::Minutes(5)));
  const Instant limit = world.now + Duration::Minutes(5);
  CHECK(world.last.wake_at == limit);
  const JobId flaky = world.Submit(AJob().RetryFailure(1, Duration::Seconds(30)));
  world.Exit(flaky, 0, ExitReason::kFailed, 1);
  CHECK(world.last.wake_at == world.now + Duration::Seconds(30));
  world.Cancel(flaky);
  CHECK(world.last.wake_at == limit);
  world.Finish(job);
  CHECK(world.last.wake_at == world.now + world.policy.keep_finished);  // to archive it
}

TEST_CASE("what waits for time is done exactly when it is due, never before") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().MaxRuntime(Duration::Minutes(5)));
  world.now = world.last.wake_at - Duration::Nanos(1);
  world.Turn({});
  CHECK(world.Is(job) == JobState::kRunning);
  world.now = world.last.wake_at;
  world.Turn({});
  CHECK(world.Is(job) == JobState::kStopping);
}

TEST_CASE("the notice is the job's own, up to the policy's limit") {
  World world(Cluster().Leaf(1));
  world.agents.saves = false;
  const JobId low = world.Submit(AJob().Priority(0).Notice(Duration::Minutes(60)));
  (void)world.Submit(AJob().Priority(30));
  REQUIRE(world.Is(low) == JobState::kSaving);
  CHECK(std::get<Saving>(world.At(low).phase).deadline ==
        world.now + world.policy.suspend_notice_max);
}

TEST_CASE("with a long queue each look at it is a step, and none is lost") {
  World world(Cluster().Leaf(1));
  for (int i = 0; i < 1010; ++i) {
    const JobId id(world.state.next_job_id);
    REQUIRE(tide::Apply(world.state, {world.now, JobSubmitted{id, AJob().Spec(), "ada", ""}}));
  }
  ClusterState settled = world.state;
  const StepResult all = Step(settled, {}, world.policy, world.now);
  const StepResult first = Step(world.state, {}, world.policy, world.now, Deciding::kOneLook);
  CHECK(first.log.size() == 1);
  CHECK_FALSE(first.at_rest);
  CHECK(first.wake_at == world.now);
  const StepResult second = Step(world.state, {}, world.policy, world.now, Deciding::kOneLook);
  CHECK(second.at_rest);
  CHECK(second.wake_at == all.wake_at);
  CHECK(second.explanations.All(world.state) == all.explanations.All(settled));
  CHECK(Difference(settled, world.state).empty());
}

}  // namespace tide::testing
