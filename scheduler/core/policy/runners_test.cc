// The rules of sharing one by one: costs, slices, turns, and who may take from whom.

#include "scheduler/core/policy/runners.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/prng.h"
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

// bob runs on a node and has had his slice, eve came after he had started and has waited for one.
struct Meeting {
  Policy policy;
  LiveJob running;
  Job waiting;
  Runner runner;
  Contender waiter;
  int64_t holds = 8000;

  Meeting() {
    running.id = JobId(2);
    running.gpus = 8;
    running.placed_at = running.running_at = kMoment - kOneHour * 20;
    waiting.id = JobId(1);
    waiting.spec = AJob().Gpus(8).Spec();
    waiting.state_since = kMoment - kOneHour;
    runner.job = &running;
    runner.holds = &holds;
    runner.least = LeastFor(kNotSlowed, Duration(), policy);
    runner.reclaimed_until = Instant::Never();
    waiter.owner = waiter.user = 1;
    waiter.job = &waiting;
    waiter.footing = {kNotSlowed * policy.turn_ratio, 0};
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  [[nodiscard]] Right Is() const { return RightTo(waiter, runner, policy, kMoment); }
};

// eve waited already when bob started on less than she wants, not long ago.
struct Later : Meeting {
  Later() {
    running.placed_at = running.running_at = waiting.state_since + kTick;
    running.gpus = 7;
    runner.safe_until = Instant::Never();
  }
};

// To look at only: what it was made from is gone.
Runners RunnersOf(const World& world) {
  const Shares shares(world.state, world.policy, world.now);
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  return {world.state, world.policy, shares, quotas, world.now};
}

// A busy cluster of some classes and users, with quotas, and a gang that waits in it.
class BusyWorld : public World {
 public:
  explicit BusyWorld(Prng& prng) : World(Cluster().Leaf(8)), prng_(prng) {
    QuotaRow row;
    row.subject = QuotaRow::Subject::kUser;
    row.name = "ann";
    row.nodes = 2;
    row.limit = 8;
    policy.quotas.push_back(row);
    for (int round = 0; round < 12; ++round) {
      (void)Submit(AJob().Nodes(1).Priority(Draw({0, 10, 10, 30})), Draw({"ann", "bob", "eve"}));
      Pass(Duration::Minutes(static_cast<int64_t>(prng.Below(90))));
    }
    waits = Submit(AJob().Nodes(6).Priority(10), "bob");
    (void)Submit(AJob().Nodes(1).Priority(10), "eve");
  }

  // Draws a job that waits: the gang, with a history of its own.
  [[nodiscard]] Contender AContender(Job& job) {
    job = At(waits);
    job.phase =
        Queued{Draw({StartReason::kFirst, StartReason::kFault}), Instant(), JobId(), std::nullopt};
    job.state_since = now - Duration::Minutes(static_cast<int64_t>(prng_.Below(600)));
    Contender contender{.job = &job,
                        .owner = static_cast<uint32_t>(prng_.Below(4)),
                        .user = static_cast<uint32_t>(prng_.Below(4)),
                        .priority = Draw({0, 10, 10, 30}),
                        .standing = Draw({Standing::kWithin, Standing::kBorrows, Standing::kNoRow}),
                        .footing = {}};
    contender.footing.slowdown = kNotSlowed + static_cast<int64_t>(prng_.Below(20'000));
    return contender;
  }

  JobId waits;

 private:
  template <typename T>
  T Draw(std::initializer_list<T> from) {
    return *std::next(from.begin(), static_cast<std::ptrdiff_t>(prng_.Below(from.size())));
  }

  Prng& prng_;
};

}  // namespace

TEST_CASE("property: whoever gives its nodes is in reach of the one that may have them") {
  size_t given = 0;
  size_t left_out = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Prng prng(seed);
    BusyWorld world(prng);
    const Runners runners = RunnersOf(world);
    for (int round = 0; round < 40; ++round) {
      Job job;
      const Contender waiting = world.AContender(job);
      std::set<const Runner*> in_reach;
      runners.EachInReach(waiting, [&](const Runner& each) { in_reach.insert(&each); });
      for (const Runner& runner : runners.all()) {
        const bool gives = runner.job->leaving || runners.MayTake(waiting, runner);
        REQUIRE((!gives || in_reach.contains(&runner)));
        given += gives ? 1 : 0;
      }
      left_out += runners.all().size() - in_reach.size();
    }
  }
  CHECK(given > 0);
  CHECK(left_out > 0);
}

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

TEST_CASE("a turn: for who was slowed down twice as much, after a minimum run of waiting") {
  Meeting meeting;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.waiter.footing.slowdown -= 1;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.footing.slowdown += 1;
  meeting.waiting.state_since = kMoment - meeting.policy.minimum_run;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.waiting.state_since = meeting.waiting.state_since + kTick;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("a turn: not before the slice is over, and not of one's own user") {
  Meeting meeting;
  meeting.runner.safe_until = kMoment;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.runner.safe_until = kMoment + kTick;
  CHECK(meeting.Is() == Right::kNone);
  meeting.runner.safe_until = kMoment;
  meeting.waiter.user = meeting.running.user;
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("a turn: the more its owner has already, the more a job must have been slowed down") {
  const Policy policy;
  const struct {
    int64_t waiting;  // what their owners hold
    int64_t running;
    int64_t least;  // slowdown of who takes its turn from one that was not slowed
  } rows[] = {{0, 8000, 2000},
              {7999, 8000, 2000},
              {8000, 8000, 8000},
              {16'000, 8000, 16'000},
              {8000, 16'000, 2000},
              {0, 0, 2000},
              {1'000'000'000'000, 1, 8'000'000'000'000'000}};
  for (const auto& row : rows) {
    CAPTURE(row.waiting, row.running);
    const int64_t least = LeastFor(kNotSlowed, Duration(), policy);
    CHECK(IsItsTurn({row.least, row.waiting}, least, row.running));
    CHECK_FALSE(IsItsTurn({row.least - 1, row.waiting}, least, row.running));
  }
}

TEST_CASE("a turn: the more work the other would lose, the more a job must have been slowed down") {
  Meeting meeting;
  meeting.runner.least = LeastFor(kNotSlowed, meeting.policy.minimum_run * 3, meeting.policy);
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.footing.slowdown = kNotSlowed * meeting.policy.turn_ratio * 4;
  CHECK(meeting.Is() == Right::kTurn);
  const Duration more = meeting.policy.minimum_run * 3 + Duration::Seconds(1);
  meeting.runner.least = LeastFor(kNotSlowed, more, meeting.policy);
  CHECK(meeting.Is() == Right::kNone);
  CHECK(LeastFor(kNotSlowed, kOneHour * 24 * 36'500, meeting.policy) > kNotSlowed * 100'000);
  meeting.runner.priority = -1;  // a lower class is not spared for that
  CHECK(meeting.Is() == Right::kClass);
}

TEST_CASE("a turn: who would borrow takes it from all but those within their quota") {
  for (const auto& [waits, runs, right] :
       {std::tuple(Standing::kBorrows, Standing::kWithin, Right::kNone),
        {Standing::kBorrows, Standing::kNoRow, Right::kTurn},
        {Standing::kNoRow, Standing::kWithin, Right::kTurn},
        {Standing::kWithin, Standing::kWithin, Right::kTurn}}) {
    Meeting meeting;
    meeting.waiter.standing = waits;
    meeting.runner.standing = runs;
    CHECK(meeting.Is() == right);
  }
}

TEST_CASE("a slice holds, but not of what was lent: of a smaller job that started meanwhile") {
  Later meeting;
  CHECK(meeting.Is() == Right::kBefore);
  meeting.running.gpus = 8;  // the other could have started there
  CHECK(meeting.Is() == Right::kNone);
  meeting.runner.safe_until = kMoment;
  CHECK(meeting.Is() == Right::kTurn);
  meeting.runner.safe_until = Instant::Never();
  meeting.running.gpus = 7;
  meeting.running.running_at = Instant();
  CHECK(meeting.Is() == Right::kNone);  // it starts
  meeting.running.running_at = kMoment;
  meeting.waiter.footing.slowdown -= 1;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.footing.slowdown += 1;
  meeting.running.placed_at = meeting.waiting.state_since;
  CHECK(meeting.Is() == Right::kNone);  // they came at once …
  meeting.running.opportunistic = true;
  CHECK(meeting.Is() == Right::kBefore);  // … and the other was passed
}

TEST_CASE("what is guaranteed does not go to who would borrow, whoever came first") {
  Later meeting;
  meeting.waiter.standing = Standing::kBorrows;
  CHECK(meeting.Is() == Right::kBefore);
  meeting.runner.standing = Standing::kWithin;
  CHECK(meeting.Is() == Right::kNone);
  meeting.waiter.standing = Standing::kWithin;
  CHECK(meeting.Is() == Right::kBefore);
}

TEST_CASE("of his own an owner's job takes what started while it waited, by his order") {
  Later meeting;
  meeting.waiter.owner = meeting.waiter.user = 0;
  meeting.waiter.footing.holds = INT64_MAX;
  CHECK(meeting.Is() == Right::kBefore);
  meeting.running.rank = -1;
  CHECK(meeting.Is() == Right::kNone);
  meeting.running.rank = 0;
  meeting.waiter.owner = 1;  // in another project
  CHECK(meeting.Is() == Right::kNone);
}

TEST_CASE("a fault costs nobody his place: what passed it goes back") {
  Later meeting;
  meeting.waiting.phase = Queued{StartReason::kFault, Instant(), JobId(), std::nullopt};
  meeting.running.gpus = 8;
  meeting.waiter.footing = {kNotSlowed, INT64_MAX};
  CHECK(meeting.Is() == Right::kNone);
  meeting.running.opportunistic = true;
  CHECK(meeting.Is() == Right::kBefore);
  meeting.running.opportunistic = false;
  meeting.running.gpus = 7;  // it has the rights of all others as well
  meeting.waiter.footing = {kNotSlowed * meeting.policy.turn_ratio, 0};
  CHECK(meeting.Is() == Right::kBefore);
}

TEST_CASE("runners are safe for a slice from when they run") {
  World world(Cluster().Leaf(1));
  const JobId before = world.Submit(AJob().Priority(30), "ann");
  const JobId job = world.Submit(AJob(), "eve");
  world.Pass(kOneHour * 2);
  world.agents.starts = false;
  world.Finish(before);
  CHECK(RunnersOf(world).Find(job)->safe_until == Instant::Never());
  world.Pass(Duration::Minutes(5));
  world.agents.starts = true;
  world.Run();
  REQUIRE(world.Is(job) == JobState::kRunning);
  const Instant running_at = world.At(job).attempts.back().running_at;
  const Runners runners = RunnersOf(world);
  CHECK(runners.Find(job)->safe_until == running_at + Duration::Minutes(100));
  CHECK(runners.Find(job)->reclaimed_until == Instant::Never());
  CHECK(runners.Find(job)->least > kNotSlowed * 16);
  world.policy.preemption_tax = 1000;
  CHECK(RunnersOf(world).Find(job)->safe_until == running_at + Duration::Seconds(60'000));
}

TEST_CASE("what an owner holds: its jobs that stay, what it claims, and what it is given") {
  World world(Cluster().Gpus(8).Leaf(3));
  world.policy.projects["llm"] = {"", 2};
  const JobId weighty = world.Submit(AJob().Project("llm").Gpus(8), "bob");
  const JobId leaves = world.Submit(AJob().Gpus(8).Priority(0), "ann");
  (void)world.Submit(AJob().Gpus(8).Nodes(2).Priority(0), "ann");
  world.agents.saves = false;
  (void)world.Submit(AJob().Gpus(8).Nodes(2).Priority(30), "eve");
  REQUIRE(world.Is(leaves) == JobState::kSaving);
  REQUIRE(world.state.groups.At("default") == 0);
  const Shares shares(world.state, world.policy, world.now);
  const Quotas quotas(world.state, world.state.fabric, world.policy, world.now);
  Runners runners(world.state, world.policy, shares, quotas, world.now);
  const auto of = [&](const std::string& project, const std::string& user, int32_t priority) {
    return Holding{world.state.owners.At(project, user), 0, priority};
  };
  constexpr int64_t kGpu = 1'000'000'000;
  CHECK(runners.HoldsOf(of("llm", "bob", 10)) == 8 * kGpu / 2);
  CHECK(runners.HoldsOf(of("llm", "bob", 0)) == 0);  // in another class
  CHECK(runners.HoldsOf(of("default", "ann", 0)) == 0);
  CHECK(runners.HoldsOf(of("default", "eve", 30)) == 16 * kGpu);
  runners.Give(of("llm", "bob", 10), -8);
  CHECK(runners.HoldsOf(of("llm", "bob", 10)) == 0);
  CHECK(*runners.Find(weighty)->holds == 0);
}

TEST_CASE("the next change: every review while something of the class runs") {
  World world(Cluster().Leaf(1));
  (void)world.Submit(AJob(), "bob");
  CHECK(RunnersOf(world).NextChange(10) == world.now + world.policy.review);
  CHECK(RunnersOf(world).NextChange(0) == Instant::Never());
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
  RebuildDerived(world.state);  // what has ended never changes otherwise
  std::vector<JobId> order;
  const Runners runners = RunnersOf(world);
  for (const Runner& runner : runners.all()) {
    order.push_back(runner.job->id);
  }
  CHECK(order == std::vector<JobId>{older, newer, dear});
}

}  // namespace tide::testing
