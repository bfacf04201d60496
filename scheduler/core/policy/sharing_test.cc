// Turns inside a class: who leaves for whom, and when (docs/adr/0003).

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

TEST_CASE("a job waits with patience before others of its class leave for it") {
  const Policy policy;
  CHECK_FALSE(LeavesFor(AJob(), kLong, policy.patience - kJust));
  CHECK(LeavesFor(AJob(), kLong, policy.patience + kJust));
  CHECK(LeavesFor(AJob().Priority(0), Duration(), Duration()));  // a lower class leaves at once
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

TEST_CASE("who leaves has had the lead, counted from what the other had used") {
  const Policy policy;
  const Duration lead = policy.share_lead;
  // Use decays while it grows: a little more than the lead has to be run.
  CHECK_FALSE(LeavesFor(AJob(), lead - policy.patience, policy.patience));
  CHECK(LeavesFor(AJob(), lead + Duration::Minutes(60), policy.patience));
}

TEST_CASE("a margin keeps two owners from chasing each other") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId second = world.Submit(AJob(), "eve");
  world.Pass(world.policy.patience + kJust);
  REQUIRE(world.Is(second) == JobState::kRunning);
  world.Pass(kLong);  // as long as the other had; that is not so many times as much
  CHECK(world.Is(first) == JobState::kQueued);
}

TEST_CASE("who gave way before is asked again only after twice the patience") {
  World world(Cluster().Leaf(1));
  const JobId victim = world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId first = world.Submit(AJob(), "eve");
  world.Pass(world.policy.patience + kJust);
  REQUIRE(world.Is(first) == JobState::kRunning);
  world.Finish(first);
  REQUIRE(world.Is(victim) == JobState::kRunning);
  world.Pass(kLong);
  const JobId second = world.Submit(AJob(), "ann");
  world.Pass(world.policy.patience * 2 - kJust);
  CHECK(world.Is(second) == JobState::kQueued);
  world.Pass(kJust * 2);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("an owner's hold of a job does not count as giving way") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob(), "bob");
  world.Hold(job);
  world.Release(job);
  REQUIRE(world.Is(job) == JobState::kRunning);
  REQUIRE(world.At(job).suspensions == 1);
  world.Pass(kLong);
  const JobId other = world.Submit(AJob(), "eve");
  world.Pass(world.policy.patience + kJust);
  CHECK(world.Is(other) == JobState::kRunning);
}

TEST_CASE("a job waits once more for each job that would have to leave for it") {
  for (const uint32_t nodes_each : {1U, 2U}) {
    World world(Cluster().Leaf(2));
    for (uint32_t nodes = 0; nodes < 2; nodes += nodes_each) {
      (void)world.Submit(AJob().Nodes(nodes_each), "bob");
    }
    world.Pass(kLong);
    const JobId gang = world.Submit(AJob().Nodes(2), "eve");
    world.Pass(world.policy.patience + kJust);
    CHECK((world.Is(gang) == JobState::kRunning) == (nodes_each == 2));
    world.Pass(world.policy.patience);
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

TEST_CASE("a job that waits because of many victims does not hold up a larger one with one") {
  World world(Cluster().Leaf(6));
  (void)world.Submit(AJob().Nodes(4), "bob");
  (void)world.Submit(AJob(), "bob");
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId small = world.Submit(AJob().Nodes(2), "ann");  // is looked at first
  const JobId large = world.Submit(AJob().Nodes(4), "eve");
  world.Pass(world.policy.patience + kJust);
  CHECK(world.Is(large) == JobState::kRunning);
  CHECK(world.Is(small) == JobState::kQueued);
}

TEST_CASE("who has waited longer is not refused with one before it") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob(), "bob");
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  const JobId first = world.Submit(AJob().Nodes(2), "eve");
  const JobId second = world.Submit(AJob().Nodes(2), "eve");
  world.Pass(world.policy.patience);
  world.Hold(first);
  world.Release(first);  // waits anew
  world.Pass(world.policy.patience + kJust);
  CHECK(world.Is(first) == JobState::kQueued);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("who has used less is not refused with one of a project before his") {
  World world(Cluster().Leaf(1));
  (void)world.Submit(AJob().Project("a"), "bob");
  world.Pass(kLong);
  const auto account = [&](const std::string& project, const std::string& user) -> Account& {
    Job job;
    job.spec.project = project;
    job.user = user;
    return AccountOf(world.state, job);
  };
  account("b", "ann") = {Duration::Minutes(600).millis(), 0, world.now};
  account("c", "sam") = {kLong.millis() * 9, 0, world.now};
  const JobId first = world.Submit(AJob().Project("b"), "ann");
  const JobId second = world.Submit(AJob().Project("c"), "eve");
  world.Pass(world.policy.patience + kJust);
  CHECK(world.Is(first) == JobState::kQueued);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("who waited keeps what it got for as long") {
  World world(Cluster().Leaf(1));
  const JobId before = world.Submit(AJob(), "ann");
  world.Pass(kLong);
  world.Finish(before);
  const JobId high = world.Submit(AJob().Priority(30), "bob");
  const JobId job = world.Submit(AJob(), "ann");
  world.Pass(Duration::Minutes(5 * 60));
  world.Finish(high);
  const JobId other = world.Submit(AJob(), "eve");
  world.Pass(Duration::Minutes(5 * 60) - kJust);  // several slices
  CHECK(world.Is(job) == JobState::kRunning);
  world.Pass(kJust * 2);
  CHECK(world.Is(other) == JobState::kRunning);
}

TEST_CASE("what comes free while a gang waits is lent to small jobs, and they are told so") {
  World world(Cluster().Leaf(2));
  (void)world.Submit(AJob(), "ann");
  const JobId ends = world.Submit(AJob(), "ann");
  const JobId gang = world.Submit(AJob().Nodes(2), "eve");
  world.Pass(Duration::Minutes(1));
  world.Finish(ends);
  const JobId small = world.Submit(AJob(), "bob");
  REQUIRE(world.Is(small) == JobState::kRunning);
  world.Pass(world.policy.gang_wait);
  CHECK(world.Is(small) == JobState::kRunning);  // one node does not help the gang
  world.Finish(world.state.jobs.begin()->first);
  CHECK(world.Is(gang) == JobState::kRunning);
  CHECK(world.Is(small) == JobState::kQueued);
  CHECK(world.At(small).attempts.back().end_detail ==
        "gives its nodes to j-" + std::to_string(gang.value()) +
            " (normal), which has waited for more since before it started");
}

TEST_CASE("a gang does not wait for turns where what was lent will do") {
  World world(Cluster().Leaf(8));
  std::vector<JobId> used_much;
  std::vector<JobId> end;
  for (int i = 0; i < 4; ++i) {
    used_much.push_back(world.Submit(AJob(), "ann"));
    end.push_back(world.Submit(AJob().Priority(30), "dan"));
  }
  world.Pass(kLong);
  const JobId gang = world.Submit(AJob().Nodes(4), "eve");
  for (size_t i = 0; i < end.size(); ++i) {
    if (i + 1 == end.size()) {
      world.Pass(world.policy.patience + kJust);  // not four times that, as four turns would need
    }
    world.Finish(end[i]);
    (void)world.Submit(AJob(), "bob-" + std::to_string(i));
  }
  world.Pass(kJust);
  CHECK(world.Is(gang) == JobState::kRunning);
  for (const JobId job : used_much) {
    CHECK(world.Is(job) == JobState::kRunning);
  }
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

TEST_CASE("two that waited equally long do not take the same node from each other") {
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
  world.Pass(world.policy.overtaken_wait + Duration::Minutes(60));
  world.Finish(ends);
  REQUIRE((world.Is(first) == JobState::kRunning) != (world.Is(second) == JobState::kRunning));
  world.Pass(Duration::Minutes(7 * 60));
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
    world.Pass(world.policy.patience + kJust);
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
  world.Pass(world.policy.patience + kJust);
  CHECK(world.Is(running) == JobState::kRunning);
  // Another user, who has used no less, is not refused because he was.
  const JobId other = world.Submit(AJob().Project("vision"), "eve");
  world.Pass(world.policy.patience + kJust);
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

TEST_CASE("the scheduler wakes when a job may have what was lent, and when patience is over") {
  World world(Cluster().Leaf(1));
  world.policy.review = kLong;
  (void)world.Submit(AJob(), "bob");
  world.Pass(kLong);
  (void)world.Submit(AJob(), "eve");
  const Instant since = world.now;
  CHECK(world.last.wake_at == since + world.policy.gang_wait);
  world.Pass(world.policy.gang_wait);
  CHECK(world.last.wake_at == since + world.policy.patience);
}

}  // namespace tide::testing
