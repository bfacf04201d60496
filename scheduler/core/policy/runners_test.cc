// The rules of sharing one by one: costs, slices, patience, and who may take from whom.

#include "scheduler/core/policy/runners.h"

#include <catch2/catch.hpp>
#include <utility>

#include "scheduler/core/model/index.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr Duration kOneHour = Duration::Minutes(60);
constexpr Duration kTick = Duration::Nanos(1);
const Instant kMoment = Instant::FromUnixNanos(1'800'000'000'000'000'000);

Instant After(int64_t seconds) {
  return kMoment + Duration::Seconds(seconds);
}

// Placed, runs 5 s later; asked after 100 s, gone 7 s after that.
Attempt Left(StopCause cause, int64_t placed) {
  Attempt attempt;
  attempt.placed_at = After(placed);
  attempt.running_at = After(placed + 5);
  attempt.notice_at = After(placed + 100);
  attempt.released_at = After(placed + 107);
  attempt.end_cause = cause;
  return attempt;
}

// bob runs on a node, eve has waited for one for long, in one class.
struct Meeting {
  Policy policy;
  LiveJob running;
  Job waiting;
  Runner runner;
  Contender waiter;

  Meeting() {
    running.id = JobId(2);
    running.gpus = 8;
    running.placed_at = kMoment - kOneHour * 20;
    waiting.id = JobId(1);
    waiting.spec = AJob().Gpus(8).Spec();
    waiter.owner = waiter.user = 1;
    waiting.state_since = kMoment - kOneHour * 100;
    runner.job = &running;
    runner.patience = policy.patience;
    runner.overtaken_until = runner.reclaimed_until = Instant::Never();
    waiter.job = &waiting;
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  [[nodiscard]] Right Is() const { return RightTo(waiter, runner, policy, kMoment); }
};

// bob started out of order on a node that eve, who waits for two, could not use alone.
struct Lent : Meeting {
  Lent() {
    running.opportunistic = true;
    running.placed_at = kMoment - kTick;
    waiting.spec = AJob().Nodes(2).Gpus(8).Spec();
    waiting.state_since = kMoment - policy.gang_wait;
    runner.safe_until = runner.earned_until = runner.overtaken_until = Instant::Never();
    runner.use = waiter.use = 1;
  }
};

// The same, started out of order; its owner has used too little for a turn.
struct Overtaken : Meeting {
  Overtaken() {
    runner.overtaken_until = kMoment;
    runner.use = waiter.use = 1;
  }
};

Runners RunnersOf(const World& world) {
  const Shares shares(world.state, world.policy, world.now);
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  return {world.state, world.policy, shares, quotas, world.now};
}

}  // namespace

TEST_CASE("a suspension costs what the last one took: leaving, and starting again") {
  const Policy policy;
  Job job;
  CHECK(CostOfSuspension(job, policy) == policy.assumed_cost);
  job.attempts = {Left(StopCause::kHeld, 0), Left(StopCause::kNone, 1000)};
  CHECK(CostOfSuspension(job, policy) == policy.assumed_cost);
  job.attempts = {Left(StopCause::kPreempted, 0), Left(StopCause::kNone, 1000)};
  CHECK(CostOfSuspension(job, policy) == Duration::Seconds(12));
  job.attempts.back().running_at = Instant();  // not before it has started again
  CHECK(CostOfSuspension(job, policy) == policy.assumed_cost);
}

TEST_CASE("a slice is the minimum run, or what the tax makes of a suspension") {
  Policy policy;
  policy.preemption_tax = 200;
  CHECK(SliceOf(CostOfSuspension(Job(), policy), policy) == Duration::Seconds(60 * 200));
  policy.preemption_tax = 1;
  CHECK(SliceOf(CostOfSuspension(Job(), policy), policy) == policy.minimum_run);
  policy.assumed_cost = kOneHour * 24;
  policy.preemption_tax = 100'000;
  CHECK(SliceOf(CostOfSuspension(Job(), policy), policy) ==
        kOneHour * 24 * 365);  // within the range of times
}

TEST_CASE("what was waited for is earned, the lead at most") {
  const Policy policy;
  CHECK(EarnedBy(kOneHour, policy) == kOneHour);
  CHECK(EarnedBy(kOneHour * 24, policy) == policy.share_lead);
}

TEST_CASE("patience for each who leaves, never longer than for those that overtook") {
  Policy policy;
  CHECK(PatienceFor(0, policy) == Duration());
  CHECK(PatienceFor(3, policy) == policy.patience * 3);
  CHECK(PatienceFor(49, policy) == policy.overtaken_wait);
  policy.overtaken_wait = Duration();
  CHECK(PatienceFor(2, policy) == policy.patience);
  policy.patience = Duration();
  CHECK(PatienceFor(2, policy) == Duration());
}

TEST_CASE("far below is a margin, and a lead on the same GPUs over the other's weight") {
  const Policy policy;
  const int64_t lead = policy.share_lead.millis();
  for (const auto& [use, weight, gpus, least] :
       {std::tuple(0L, 1, 1, lead), {0L, 1, 8, lead * 8}, {0L, 2, 8, lead * 4}}) {
    CHECK(IsFarBelow(use, least, weight, gpus, policy));
    CHECK_FALSE(IsFarBelow(use, least - 1, weight, gpus, policy));
  }
  CHECK(IsFarBelow(10, lead + 10 * policy.share_margin, 1, 1, policy));
  CHECK_FALSE(IsFarBelow(10, lead + 10 * policy.share_margin - 1, 1, 1, policy));
}

TEST_CASE("a turn: after patience and slice, on as many GPUs as both have") {
  Meeting meeting;
  meeting.runner.use = meeting.policy.share_lead.millis();
  CHECK(meeting.Is() == Right::kNone);  // on eight GPUs that is no lead
  meeting.waiting.spec = AJob().Gpus(1).Spec();
  CHECK(meeting.Is() == Right::kTurn);
  meeting.waiting.spec = AJob().Gpus(8).Spec();
  meeting.running.gpus = 1;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.runner.safe_until = kMoment + kTick;
  CHECK(meeting.Is() == Right::kNone);
  meeting.runner.safe_until = kMoment;
  meeting.waiting.state_since = kMoment - meeting.policy.patience;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.runner.patience = meeting.policy.patience + kTick;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("a turn: who would borrow takes it from all but those within their quota") {
  Meeting meeting;
  meeting.runner.use = INT64_MAX;
  for (const auto& [waits, runs, right] :
       {std::tuple(Standing::kBorrows, Standing::kWithin, Right::kNone),
        {Standing::kBorrows, Standing::kNoRow, Right::kTurn},
        {Standing::kNoRow, Standing::kWithin, Right::kTurn},
        {Standing::kWithin, Standing::kWithin, Right::kTurn}}) {
    meeting.waiter.standing = waits;
    meeting.runner.standing = runs;
    CHECK(meeting.Is() == right);
  }
}

TEST_CASE(
    "lent: what came free meanwhile goes to the larger job that waits, without a minimum run") {
  Lent meeting;
  CHECK(meeting.Is() == Right::kReserved);
  meeting.waiting.state_since = meeting.waiting.state_since + kTick;
  CHECK(meeting.Is() == Right::kNone);  // not for long enough
  meeting.waiting.state_since = kMoment - kOneHour;
  CHECK(meeting.Is() == Right::kReserved);
  meeting.running.placed_at = kMoment - kOneHour - kTick;
  CHECK(meeting.Is() == Right::kNone);  // it ran before
}

TEST_CASE("lent: not what is guaranteed, to who would borrow; not to who waited longer itself") {
  Lent meeting;
  meeting.waiter.standing = Standing::kBorrows;
  CHECK(meeting.Is() == Right::kReserved);
  meeting.runner.standing = Standing::kWithin;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.standing = Standing::kWithin;
  CHECK(meeting.Is() == Right::kReserved);
  meeting.running.waited = kTick;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiting.state_since = meeting.waiting.state_since - kTick;
  CHECK(meeting.Is() == Right::kReserved);
}

TEST_CASE("lent: only to a smaller job that started out of order, whose owner used as much") {
  Lent meeting;
  meeting.running.gpus = 16;
  CHECK(meeting.Is() == Right::kNone);
  meeting.running.gpus = 15;
  CHECK(meeting.Is() == Right::kReserved);
  meeting.running.opportunistic = false;
  CHECK(meeting.Is() == Right::kNone);
  meeting.running.opportunistic = true;
  meeting.waiter.use = 2;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.owner = meeting.waiter.user = 0;  // one owner's jobs go in his order
  CHECK(meeting.Is() == Right::kReserved);
  meeting.running.rank = -1;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("the overtaken: who waited before it started, and so much longer than it had") {
  Overtaken meeting;
  meeting.running.waited = kOneHour * 5;
  const Instant late = kMoment - meeting.policy.overtaken_wait - kOneHour * 5;
  meeting.waiting.state_since = late;
  CHECK(meeting.Is() == Right::kOvertaken);
  meeting.waiting.state_since = late + kTick;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiting.state_since = late;
  meeting.running.placed_at = late;
  CHECK(meeting.Is() == Right::kOvertaken);
  meeting.running.placed_at = late - kTick;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("the overtaken: not from who has earned it, and used less; of his own by his order") {
  Overtaken meeting;
  meeting.runner.earned_until = kMoment + kTick;
  CHECK(meeting.Is() == Right::kNone);
  meeting.runner.earned_until = kMoment;
  meeting.waiter.use = 2;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.owner = meeting.waiter.user = 0;
  CHECK(meeting.Is() == Right::kOvertaken);
  meeting.running.rank = -1;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("the overtaken: a fault costs nobody his place, whoever used how much") {
  Overtaken meeting;
  meeting.waiting.phase = Queued{StartReason::kFault, Instant(), JobId(), std::nullopt};
  meeting.waiting.state_since = kMoment - kOneHour;
  meeting.running.placed_at = kMoment - kOneHour;
  meeting.runner.earned_until = kMoment + kOneHour;
  meeting.waiter.use = 2;
  CHECK(meeting.Is() == Right::kOvertaken);
  meeting.runner.overtaken_until = kMoment + kTick;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("runners are safe for a slice and for what they earned, from when they run") {
  World world(Cluster().Leaf(2));
  const JobId before = world.Submit(AJob().Priority(30), "ann");
  (void)world.Submit(AJob().Priority(30), "ann");
  (void)world.Submit(AJob().Nodes(2), "bob");  // the next one passes it
  const JobId job = world.Submit(AJob(), "eve");
  world.Pass(kOneHour * 2);
  world.agents.starts = false;
  world.Finish(before);
  world.Pass(Duration::Minutes(5));
  world.agents.starts = true;
  world.Run();
  REQUIRE(world.Is(job) == JobState::kRunning);
  const Attempt& attempt = world.At(job).attempts.back();
  REQUIRE(attempt.placed_at < attempt.running_at);
  const Runners runners = RunnersOf(world);
  const Runner& runner = *runners.Find(job);
  CHECK(runner.earned_until == attempt.running_at + kOneHour * 2);
  CHECK(runner.safe_until == runner.earned_until);
  CHECK(runner.overtaken_until == attempt.placed_at + world.policy.minimum_run);
  CHECK(runner.reclaimed_until == Instant::Never());
  world.policy.preemption_tax = 1000;
  CHECK(RunnersOf(world).Find(job)->safe_until == attempt.running_at + Duration::Seconds(60'000));
}

TEST_CASE("the next change: what ends next, and every review once something has ended") {
  World world(Cluster().Leaf(2));
  const JobId before = world.Submit(AJob().Priority(30), "ann");
  (void)world.Submit(AJob().Priority(30), "ann");
  (void)world.Submit(AJob().Nodes(2), "bob");
  const JobId job = world.Submit(AJob(), "eve");
  world.Pass(kOneHour);
  world.Finish(before);
  const auto next = [&] { return RunnersOf(world).NextChange(10); };
  const Instant start = world.At(job).attempts.back().running_at;
  CHECK(next() == world.now + world.policy.review);  // it started out of order
  const Duration review = std::exchange(world.policy.review, kOneHour);
  CHECK(next() == start + world.policy.minimum_run);
  world.policy.review = review;
  CHECK(RunnersOf(world).NextChange(0) == Instant::Never());
  world.Pass(world.policy.minimum_run);
  CHECK(next() == world.now + world.policy.review);
  world.Pass(start + kOneHour - world.now - Duration::Seconds(1));
  CHECK(next() == start + kOneHour);  // earned
  world.policy.review = kOneHour;
  CHECK(next() == start + kOneHour);
  world.Pass(Duration::Seconds(1));
  CHECK(next() == start + Duration::Minutes(100));  // its slice
}

TEST_CASE("patience before a job doubles each time it gives way, to a bound") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob());
  std::vector<Attempt>& attempts = world.state.jobs.at(job).attempts;
  for (const int64_t hours : {1, 2, 4, 8, 16, 32, 48, 48}) {
    CHECK(RunnersOf(world).Find(job)->patience == kOneHour * hours);
    attempts.insert(attempts.begin(), Left(StopCause::kPreempted, 0));
    TouchJob(world.state, job);
    RefreshIndexes(world.state);
  }
  world.policy.overtaken_wait = Duration();
  CHECK(RunnersOf(world).Find(job)->patience == world.policy.patience);
}

TEST_CASE("cheap victims come first: least lost for a GPU, then whose owner used most") {
  World world(Cluster().Leaf(3));
  const JobId dear = world.Submit(AJob(), "ann");
  world.Pass(kOneHour);
  const JobId older = world.Submit(AJob(), "bob");
  world.Pass(kOneHour);
  const JobId newer = world.Submit(AJob(), "eve");
  std::vector<Attempt>& attempts = world.state.jobs.at(dear).attempts;
  attempts.insert(attempts.begin(), Left(StopCause::kPreempted, 0));
  attempts.front().released_at = attempts.front().notice_at + kOneHour;
  TouchJob(world.state, dear);
  RefreshIndexes(world.state);
  std::vector<JobId> order;
  const Runners runners = RunnersOf(world);
  for (const Runner& runner : runners.all()) {
    order.push_back(runner.job->id);
  }
  CHECK(order == std::vector<JobId>{older, newer, dear});
}

}  // namespace tide::testing
