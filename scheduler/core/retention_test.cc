// Finished jobs leave the state when they are old or too many, faults when they were over long ago,
// and nothing is decided otherwise.

#include "scheduler/core/retention.h"

#include <catch2/catch.hpp>

#include "scheduler/core/requests.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr Duration kAnHour = Duration::Minutes(60);

World Keeping(uint32_t jobs, Duration keep = kAnHour * 10'000) {
  World world(Cluster().Leaf(4));
  world.policy.finished_max = jobs;
  world.policy.keep_finished = keep;
  return world;
}

JobId RunOne(World& world, const AJob& job = AJob(), const std::string& user = "ada") {
  const JobId id = world.Submit(job, user);
  world.Pass(Duration::Minutes(5));
  world.Finish(id);
  return id;
}

std::vector<JobId> Known(const World& world) {
  std::vector<JobId> ids;
  for (const auto& [id, job] : world.state.jobs) {
    ids.push_back(id);
  }
  return ids;
}

// To a thousandth: an account that was read often rounds often.
void CheckSameUse(ClusterState& loaded, const World& world, const Job& job) {
  const Duration half_life = world.policy.share_half_life;
  const Account& before =
      world.state.accounts.at(world.state.owners.At(job.spec->project, job.user));
  const auto use = static_cast<double>(before.UseAt(world.now, half_life));
  const auto after = static_cast<double>(AccountOf(loaded, job).UseAt(world.now, half_life));
  CHECK(after == Approx(use).epsilon(0.001));
  CHECK(use > 0);
}

// A fault that was counted once, and is over a day later.
void CountOnce(World& world, uint32_t node, const std::string& device) {
  world.Turn({FaultObserved{NodeId(node), FaultKind::kXid, 13, device, "", world.now}});
}

std::vector<uint64_t> KnownFaults(const World& world) {
  std::vector<uint64_t> ids;
  for (const auto& [id, incident] : world.state.incidents) {
    ids.push_back(id.value());
  }
  return ids;
}

}  // namespace

TEST_CASE("the oldest finished jobs are archived when there are too many") {
  World world = Keeping(4);
  for (int i = 0; i < 4; ++i) {
    RunOne(world);
  }
  CHECK(world.state.jobs.size() == 4);
  RunOne(world);
  world.Pass(Duration::Seconds(1));
  CHECK(Known(world) == std::vector{JobId(2), JobId(3), JobId(4), JobId(5)});
  REQUIRE(std::holds_alternative<JobsArchived>(world.log.back().body));
  CHECK(std::get<JobsArchived>(world.log.back().body).jobs == std::vector{JobId(1)});
  const JobId next = RunOne(world);
  CHECK(next == JobId(6));  // no id comes back
}

TEST_CASE("finished jobs are archived when they are old") {
  World world = Keeping(1000, kAnHour);
  const JobId first = RunOne(world);
  world.Pass(Duration::Minutes(20));
  const JobId second = RunOne(world);
  const JobId running = world.Submit(AJob());
  world.Pass(Duration::Minutes(34));
  CHECK(Known(world) == std::vector{first, second, running});
  world.Pass(Duration::Minutes(2));
  CHECK(Known(world) == std::vector{second, running});
  world.Pass(kAnHour * 2);
  CHECK(Known(world) == std::vector{running});
}

TEST_CASE("a step archives a bounded number of jobs, and the next one comes soon") {
  World world = Keeping(1, kAnHour);
  world.policy.finished_max = 10'000;
  const JobId first = world.Submit(AJob().Count(1000));
  world.Drain(0);  // so that somebody always waits for something
  for (uint64_t i = 0; i < 1000; ++i) {
    world.Cancel(JobId(first.value() + i));
  }
  REQUIRE(world.state.jobs.size() == 1000);
  world.now = world.now + kAnHour;
  world.Turn({});
  CHECK(world.state.jobs.size() == 1000 - kArchivedAtOnceMax);
  CHECK(world.last.changed.archived.size() == kArchivedAtOnceMax);
  CHECK(world.last.wake_at <= world.now + Duration::Millis(100));
  CHECK(world.last.wake_at > world.now);
  world.Pass(Duration::Seconds(1));
  CHECK(world.state.jobs.empty());
}

TEST_CASE("a job that another is to run after stays until that one has started") {
  World world = Keeping(2);
  const JobId first = RunOne(world);
  const JobId second = RunOne(world);
  const JobId blocker = world.Submit(AJob().Nodes(4));
  const JobId waits = world.Submit(AJob().Nodes(4).After(first, AfterOutcome::kSuccess));
  const JobId held = world.Submit(AJob().After(second, AfterOutcome::kAny));
  world.Hold(held);
  RunOne(world, AJob().Priority(50));
  RunOne(world, AJob().Priority(50));
  RunOne(world, AJob().Priority(50));
  CHECK(world.state.FindJob(first) != nullptr);
  CHECK(world.state.FindJob(second) != nullptr);
  world.Release(held);
  world.Finish(blocker);
  world.Pass(kAnHour);
  REQUIRE(world.Is(waits) == JobState::kRunning);
  world.Finish(waits);
  world.Pass(kAnHour);
  REQUIRE(world.state.FindJob(held) != nullptr);
  CHECK(world.Is(held) == JobState::kRunning);
  CHECK(world.state.FindJob(first) == nullptr);
  CHECK(world.state.FindJob(second) == nullptr);
  // Who comes later is told so.
  const auto late = world.Apply(
      JobSubmitted{JobId(99), AJob().After(first, AfterOutcome::kAny).Spec(), "ada", ""});
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::kNotFound);
}

TEST_CASE("an array is archived when all of it has ended and nobody waits for it") {
  World world = Keeping(1);
  const JobId array = world.Submit(AJob().Count(3));
  const JobId after = world.Submit(AJob().Nodes(4).AfterAll(array, AfterOutcome::kSuccess));
  const auto element = [&](uint64_t i) { return JobId(array.value() + i); };
  world.Finish(element(0));
  world.Finish(element(1));
  RunOne(world);
  RunOne(world);
  CHECK(world.state.FindJob(element(0)) != nullptr);
  CHECK(world.Is(after) == JobState::kQueued);
  world.Finish(element(2));
  world.Pass(kAnHour);
  REQUIRE(world.Is(after) == JobState::kRunning);
  RunOne(world, AJob().Priority(50));
  CHECK(world.state.FindJob(element(0)) == nullptr);
  CHECK(world.state.FindJob(element(2)) == nullptr);
}

TEST_CASE("of an array that is archived in part nobody can wait for all") {
  World world = Keeping(100);
  const JobId array = world.Submit(AJob().Count(2));
  world.Finish(array);
  world.Finish(JobId(array.value() + 1));
  REQUIRE(world.Apply(JobsArchived{{JobId(array.value() + 1)}, world.policy.share_half_life}));
  const auto late = world.Apply(
      JobSubmitted{JobId(99), AJob().AfterAll(array, AfterOutcome::kAny).Spec(), "ada", ""});
  REQUIRE_FALSE(late);
  CHECK_THAT(late.error().message, Catch::Contains("some of it is archived"));
  CHECK(world.Apply(
      JobSubmitted{JobId(99), AJob().After(array, AfterOutcome::kSuccess).Spec(), "ada", ""}));
}

TEST_CASE("only what has ended, and nobody asks for, can be archived") {
  World world = Keeping(100);
  const JobId ended = RunOne(world);
  const JobId runs = world.Submit(AJob().Nodes(4));
  const ClusterState before = world.state;
  const auto archive = [&](std::vector<JobId> jobs) {
    const auto applied = world.Apply(JobsArchived{std::move(jobs), kAnHour});
    CHECK(Difference(before, world.state).empty());
    return applied;
  };
  CHECK(archive({runs}).error().code == ErrorCode::kConflict);
  CHECK(archive({ended, runs}).error().code == ErrorCode::kConflict);
  CHECK(archive({ended, ended}).error().code == ErrorCode::kConflict);
  CHECK(archive({JobId(77)}).error().code == ErrorCode::kNotFound);
  CHECK(*archive({}) == Applied::kNoOp);
}

TEST_CASE("what owners used and how long their jobs ran is known after their jobs are archived") {
  World world = Keeping(1);
  const AJob large = AJob().Nodes(4);
  for (int i = 0; i < 40; ++i) {
    RunOne(world, i % 3 == 0 ? large : AJob(), i % 2 == 0 ? "ada" : "bob");
    const std::vector<Account> accounts = world.state.accounts;
    const RunHistory history = world.state.run_history;
    world.Pass(Duration::Seconds(1));  // archives
    CHECK(world.state.accounts == accounts);
    CHECK(world.state.run_history == history);
  }
  REQUIRE(world.state.jobs.size() == 1);
  CHECK(world.state.archived_use.size() == 2);
  ClusterState loaded = world.state;
  RebuildDerived(loaded);
  CHECK(Difference(loaded, world.state).empty());
  CHECK(loaded.run_history == world.state.run_history);
  Job job = world.state.jobs.begin()->second;
  for (const char* user : {"ada", "bob"}) {
    job.user = user;
    CheckSameUse(loaded, world, job);
  }
}

TEST_CASE("of many archived runs the newest are kept, and no more") {
  World world = Keeping(1);
  for (uint64_t i = 0; i < kAllRunsMax + 50; ++i) {
    RunOne(world, AJob(), i < 10 ? "ada" : "bob");
  }
  // Of ada ten, by owner alone; those of bob are among everybody's newest.
  CHECK(world.state.archived_runs.size() + 1 == kAllRunsMax + 10);
  ClusterState loaded = world.state;
  RebuildDerived(loaded);
  CHECK(loaded.run_history == world.state.run_history);
}

TEST_CASE("what was used long ago leaves nothing behind") {
  World world = Keeping(1000, Duration::Minutes(24 * 60 * 90));
  RunOne(world);
  world.now = world.now + Duration::Minutes(24 * 60 * 91);
  world.Turn({});
  CHECK(world.state.jobs.empty());
  RunOne(world);
  CHECK(world.state.archived_use.size() == 1);
  world.now = world.now + Duration::Minutes(24 * 60 * 91);
  world.Turn({});
  CHECK(world.state.archived_use.size() == 1);
}

TEST_CASE("the state stays bounded while jobs come and go") {
  World world = Keeping(100);
  size_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    const JobId id = world.Submit(AJob().Gpus(1), i % 5 == 0 ? "eve" : "ada");
    world.now = world.now + Duration::Seconds(1);
    world.Finish(id);
    most = std::max(most, world.state.jobs.size());
    world.log.clear();
  }
  CHECK(most <= 100 + 100 / 8 + 1);
  CHECK(world.state.archived_runs.size() <= kAllRunsMax + 2 * kOwnRunsMax);
  CHECK(world.state.archived_use.size() == 2);
}

TEST_CASE("an idempotency key is known as long as its job") {
  World world = Keeping(1);
  REQUIRE(world.Do(JobSubmitted{JobId(1), AJob().Spec(), "ada", "ada/key"}));
  world.Finish(JobId(1));
  CHECK(world.state.job_by_key.size() == 1);
  RunOne(world);
  world.Pass(Duration::Seconds(1));
  CHECK(world.state.job_by_key.empty());
}

TEST_CASE("faults are forgotten when they were over for as long as they are kept") {
  World world = Keeping(1000);
  world.policy.keep_incidents = kAnHour * 10;
  CountOnce(world, 0, "a");
  world.Pass(kAnHour);
  CountOnce(world, 1, "b");
  world.Xid(2, 79);  // its node stays out, and the fault open
  world.agents.validates = false;
  CHECK(KnownFaults(world) == std::vector<uint64_t>{1, 2, 3});
  world.Pass(kAnHour * 24 + Duration::Minutes(1));
  REQUIRE(world.state.incidents.at(IncidentId(2)).cleared_at.is_set());
  world.Pass(kAnHour * 9 - Duration::Minutes(2));
  CHECK(KnownFaults(world) == std::vector<uint64_t>{1, 2, 3});
  world.Pass(Duration::Minutes(2));
  CHECK(KnownFaults(world) == std::vector<uint64_t>{2, 3});
  world.Pass(kAnHour);
  CHECK(KnownFaults(world) == std::vector<uint64_t>{3});
  world.Pass(kAnHour * 1000);
  CHECK(KnownFaults(world) == std::vector<uint64_t>{3});  // it is open
  CHECK(world.NodeIs(2) != NodeState::kReady);
  CountOnce(world, 0, "a");
  CHECK(KnownFaults(world) == std::vector<uint64_t>{3, 4});  // no id comes back
  CHECK(world.state.nodes[0].faults == 2);
}

TEST_CASE("a fault that comes again is kept anew, and what its node went through stays known") {
  World world = Keeping(1000);
  world.policy.keep_incidents = kAnHour * 10;
  world.Turn({FaultObserved{NodeId(0), FaultKind::kLinkFlash, 0, "p", "", world.now, false, true}});
  const auto gone = FaultObserved{
      NodeId(0), FaultKind::kLinkFlash, 0, "p", "", world.now, /*gone=*/true, /*ends=*/true};
  world.Turn({gone});
  REQUIRE(world.state.open_incidents.over.size() == 1);
  world.Pass(Duration::Minutes(30));
  world.Turn({FaultObserved{NodeId(0), FaultKind::kLinkFlash, 0, "p", "", world.now, false, true}});
  CHECK(world.state.open_incidents.over.empty());
  CHECK(KnownFaults(world) == std::vector<uint64_t>{1});
  world.Pass(kAnHour * 9 + Duration::Minutes(45));
  CHECK(KnownFaults(world) == std::vector<uint64_t>{1});  // open for long
  world.Turn({gone});
  world.Pass(kAnHour * 10);
  CHECK(KnownFaults(world).empty());

  world.Xid(1, 79);
  world.Pass(Duration::Minutes(5));
  REQUIRE(world.NodeIs(1) == NodeState::kProbation);
  world.Pass(kAnHour * 11);
  CHECK(KnownFaults(world).empty());
  CHECK(world.state.open_incidents.withdrawals.empty());
  CHECK(world.state.nodes[1].returns.size() == 1);
}

TEST_CASE("a step forgets a bounded number of faults, and the next one comes soon") {
  World world = Keeping(1000);
  world.policy.keep_incidents = kAnHour * 10;
  std::vector<EventBody> faults;
  for (int device = 0; device < 1000; ++device) {
    faults.emplace_back(
        FaultObserved{NodeId(0), FaultKind::kXid, 13, std::to_string(device), "", world.now});
  }
  world.Turn(faults);
  world.Pass(kAnHour * 24);
  REQUIRE(world.state.open_incidents.over.size() == 1000);
  world.now = world.now + kAnHour * 10;
  world.Turn({});
  CHECK(world.state.incidents.size() == 1000 - kForgottenAtOnceMax);
  CHECK(world.last.changed.incidents.size() == kForgottenAtOnceMax);
  CHECK(world.last.wake_at <= world.now + Duration::Millis(100));
  CHECK(world.last.wake_at > world.now);
  world.Pass(Duration::Seconds(1));
  CHECK(world.state.incidents.empty());
  CHECK(world.last.wake_at == Instant::Never());
}

TEST_CASE("only faults that are over can be forgotten") {
  World world = Keeping(1000);
  CountOnce(world, 0, "a");
  CountOnce(world, 0, "b");
  REQUIRE(world.Apply(IncidentCleared{IncidentId(1)}));
  const auto forget = [&](std::vector<IncidentId> incidents) {
    const auto applied = world.Apply(IncidentsForgotten{std::move(incidents)});
    CHECK_FALSE(CheckInvariants(world.state));
    return applied;
  };
  CHECK(forget({IncidentId(2)}).error().code == ErrorCode::kConflict);
  CHECK(forget({IncidentId(1), IncidentId(2)}).error().code == ErrorCode::kConflict);
  CHECK(forget({IncidentId(1), IncidentId(1)}).error().code == ErrorCode::kConflict);
  CHECK(forget({IncidentId(9)}).error().code == ErrorCode::kNotFound);
  CHECK(*forget({}) == Applied::kNoOp);
  CHECK(KnownFaults(world) == std::vector<uint64_t>{1, 2});
  CHECK(*forget({IncidentId(1)}) == Applied::kChanged);
  CHECK(KnownFaults(world) == std::vector<uint64_t>{2});
}

}  // namespace tide::testing
