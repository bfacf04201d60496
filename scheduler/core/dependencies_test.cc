// Jobs that run after others: when they start, when they never will, and what that costs others.

#include <catch2/catch.hpp>

#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"
#include "scheduler/core/whatif.h"

namespace tide::testing {
namespace {

Result<Applied> TrySubmit(World& world, const AJob& job) {
  return world.Apply(JobSubmitted{JobId(world.state.next_job_id), job.Spec(), "ada", ""});
}

std::string SentenceOf(const World& world, JobId job) {
  const ReasonList reasons = world.ReasonsOf(job);
  return reasons.empty() ? "" : DescribeReason(world.At(job), reasons.front()).message;
}

// Ends `job` so.
void End(World& world, JobId job, Outcome outcome) {
  if (outcome == Outcome::kCancelled) {
    world.Cancel(job);
  } else if (outcome == Outcome::kSucceeded) {
    world.Finish(job);
  } else {
    world.Exit(job, 0, ExitReason::kFailed, 3);
    world.Pass(Duration::Minutes(1));  // evidence may still come
  }
  REQUIRE(std::get<Finished>(world.At(job).phase).outcome == outcome);
}

}  // namespace

TEST_CASE("every end of a job meets every wish of one that waits for it") {
  struct Case {
    Outcome outcome;
    AfterOutcome on;
    JobState then;
    std::string detail;
  };
  const Case cases[] = {
      {Outcome::kSucceeded, AfterOutcome::kSuccess, JobState::kRunning, ""},
      {Outcome::kSucceeded, AfterOutcome::kAny, JobState::kRunning, ""},
      {Outcome::kSucceeded,
       AfterOutcome::kFailure,
       JobState::kFinished,
       "j-1 succeeded, and this job runs only after its failure"},
      {Outcome::kFailed,
       AfterOutcome::kSuccess,
       JobState::kFinished,
       "j-1 failed, and this job runs only after its success"},
      {Outcome::kFailed, AfterOutcome::kAny, JobState::kRunning, ""},
      {Outcome::kFailed, AfterOutcome::kFailure, JobState::kRunning, ""},
      {Outcome::kCancelled,
       AfterOutcome::kSuccess,
       JobState::kFinished,
       "j-1 was cancelled, and this job runs only after its success"},
      {Outcome::kCancelled, AfterOutcome::kAny, JobState::kRunning, ""},
      {Outcome::kCancelled, AfterOutcome::kFailure, JobState::kRunning, ""},
  };
  for (const Case& each : cases) {
    World world(Cluster().Leaf(2));
    const JobId first = world.Submit(AJob());
    const JobId then = world.Submit(AJob().After(first, each.on));
    CHECK(world.Is(then) == JobState::kQueued);
    CHECK(world.Why(then) == std::vector<std::string>{"held.dependency"});
    End(world, first, each.outcome);
    INFO(SentenceOf(world, then) << world.At(then).detail);
    REQUIRE(world.Is(then) == each.then);
    CHECK(world.At(then).detail == each.detail);
    if (each.then == JobState::kFinished) {
      CHECK(std::get<Finished>(world.At(then).phase) == Finished{Outcome::kCancelled, 130});
    }
    // What has ended counts at once, or is refused at once.
    const auto late = TrySubmit(world, AJob().After(first, each.on));
    CHECK(late.has_value() == (each.then == JobState::kRunning));
    CHECK((late || late.error().code == ErrorCode::kNeverFits));
  }
}

namespace {

// What a graph of three jobs wants of two of them: 0 = nothing, else how the earlier must end.
struct Graph {
  uint32_t edges = 0;  // digits to base 4: 0 → 1, 0 → 2, 1 → 2
  bool array = false;  // the first is one of two elements, and all of it is waited for

  [[nodiscard]] uint32_t Edge(size_t from, size_t to) const {
    return edges >> (2 * (from + to - 1)) & 3U;
  }
  [[nodiscard]] AJob Describe(size_t job, const std::vector<JobId>& before) const {
    AJob spec;
    for (size_t from = 0; from < job; ++from) {
      if (const uint32_t edge = Edge(from, job); edge != 0) {
        const auto on = static_cast<AfterOutcome>(edge - 1);
        array&& from == 0 ? spec.AfterAll(before[from], on) : spec.After(before[from], on);
      }
    }
    return array && job == 0 ? spec.Count(2) : spec;
  }
  // By the words of the guide, when all before it have ended.
  [[nodiscard]] bool MayStart(size_t job, const std::vector<bool>& succeeded) const {
    for (size_t from = 0; from < job; ++from) {
      const uint32_t edge = Edge(from, job);
      if ((edge == 1 && !succeeded[from]) || (edge == 2 && succeeded[from])) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("every graph of three jobs ends as the rules say, whatever becomes of each") {
  for (uint32_t world_number = 0; world_number < 64 * 8 * 2; ++world_number) {
    const Graph graph{world_number % 64, world_number >= 512};
    const uint32_t ends = world_number / 64 % 8;  // bit: is cancelled
    INFO("edges " << graph.edges << ", ends " << ends << ", array " << graph.array);
    World world(Cluster().Leaf(4));
    std::vector<JobId> jobs;
    std::vector<bool> succeeded;
    for (size_t job = 0; job < 3; ++job) {
      jobs.push_back(world.Submit(graph.Describe(job, jobs)));
    }
    for (size_t job = 0; job < 3; ++job) {
      const bool starts = graph.MayStart(job, succeeded);
      REQUIRE(world.Is(jobs[job]) == (starts ? JobState::kRunning : JobState::kFinished));
      const bool cancelled = (ends >> job & 1U) != 0;
      if (starts) {
        cancelled ? world.Cancel(jobs[job]) : world.Finish(jobs[job]);
      }
      if (graph.array && job == 0) {
        world.Finish(JobId(2));
      }
      succeeded.push_back(starts && !cancelled);
    }
    REQUIRE(world.state.dependencies.blocked.empty());
  }
}

TEST_CASE("a job waits for all that it names, and says for whom") {
  World world(Cluster().Leaf(4));
  const JobId a = world.Submit(AJob());
  const JobId b = world.Submit(AJob());
  const JobId job = world.Submit(AJob().After(a).After(b, AfterOutcome::kAny));
  CHECK(SentenceOf(world, job) == "waits for the success of j-1, and for 1 more");
  world.Finish(a);
  CHECK(SentenceOf(world, job) == "waits for the end of j-2");
  world.Finish(b);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a job that waits for another holds nobody up") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob());
  const JobId blocked = world.Submit(AJob().Nodes(2).Priority(30).After(first));
  const JobId next = world.Submit(AJob());
  CHECK(world.Is(next) == JobState::kRunning);
  CHECK_FALSE(world.At(next).attempts.back().opportunistic);
  CHECK(world.Is(first) == JobState::kRunning);  // and nobody is asked to leave for it
  CHECK_FALSE(world.state.waiting.contains(blocked));
  world.Finish(first);
  CHECK(world.Is(blocked) == JobState::kRunning);  // now the lower class gives way
  CHECK(world.Is(next) == JobState::kQueued);
}

TEST_CASE("what can never start ends a chain of any length at once") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob());
  constexpr uint64_t kLength = 3000;  // more links than Step has rounds
  std::vector<Event> events;
  for (uint64_t id = 2; id <= kLength; ++id) {
    events.push_back(
        {world.now, JobSubmitted{JobId(id), AJob().After(JobId(id - 1)).Spec(), "ada", ""}});
  }
  REQUIRE(Step(world.state, events, world.policy, world.now).log.size() == events.size());
  const JobId cleanup = world.Submit(AJob().After(JobId(kLength), AfterOutcome::kFailure));
  world.Cancel(first);
  CHECK(world.Is(JobId(kLength)) == JobState::kFinished);
  CHECK(world.At(JobId(kLength)).detail ==
        "j-2999 was cancelled, and this job runs only after its success");
  CHECK(world.Is(cleanup) == JobState::kRunning);
  CHECK(world.state.dependencies == Dependencies());
}

TEST_CASE("an unknown job is refused, and nothing is submitted") {
  World world(Cluster().Leaf(1));
  const ClusterState before = world.state;
  const auto unknown = TrySubmit(world, AJob().After(JobId(7)));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kNotFound);
  CHECK(unknown.error().message == "after: j-7: no such job; see `tide ps --all`");
  CHECK_FALSE(TrySubmit(world, AJob().After(JobId(1))));  // itself
  CHECK(Difference(before, world.state).empty());
}

TEST_CASE("a held job that waits for another goes on waiting when it is released") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob());
  const JobId job = world.Submit(AJob().After(first));
  world.Hold(job);
  CHECK(world.Why(job) == std::vector<std::string>{"held.user"});
  world.Release(job);
  CHECK(world.Why(job) == std::vector<std::string>{"held.dependency"});
  world.Hold(job);
  world.Cancel(first);
  CHECK(world.Is(job) == JobState::kHeld);  // its user has the last word
  world.Release(job);
  CHECK(world.Is(job) == JobState::kFinished);
}

TEST_CASE("a blocked job can be cancelled, and is not started by an event from elsewhere") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob());
  const JobId job = world.Submit(AJob().After(first));
  CHECK_FALSE(world.Apply(JobPlaced{job, Epoch(1), {{NodeId(1)}, 20000}}));
  CHECK_FALSE(world.Apply(ClaimMade{job, {{NodeId(1)}, {}}}));
  CHECK_FALSE(world.Apply(DependencyFailed{job, first}));
  world.Cancel(job);
  CHECK(world.Is(job) == JobState::kFinished);
  CHECK(world.state.dependencies == Dependencies());
}

TEST_CASE("a suspended job does not wait again for what it has waited for") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob());
  world.Finish(first);
  const JobId job = world.Submit(AJob().Priority(0).After(first));
  const JobId high = world.Submit(AJob().Priority(30));
  CHECK(world.Is(job) == JobState::kQueued);
  world.Finish(high);
  CHECK(world.Is(job) == JobState::kRunning);
}

TEST_CASE("a plan knows what a job waits for, whatever has become of it") {
  World world(Cluster().Leaf(3));
  const JobId done = world.Submit(AJob());
  world.Finish(done);
  const JobId runs = world.Submit(AJob());
  const JobId held = world.Submit(AJob());
  world.Hold(held);
  const JobId blocked = world.Submit(AJob().After(runs));
  const auto ask = [&](const AJob& job) {
    return PlanJob(
        CopyForPlan(world.state, job.Spec().after), world.policy, job.Spec(), "ada", world.now);
  };
  CHECK(ask(AJob().After(done))->verdict == PlanVerdict::kStarts);
  for (const JobId open : {runs, held, blocked}) {
    const auto plan = ask(AJob().After(done).After(open));
    REQUIRE(plan);
    CHECK(plan->verdict == PlanVerdict::kQueues);
    REQUIRE(plan->reasons.size() == 1);
    CHECK(plan->reasons.front().code == "held.dependency");
  }
  CHECK(ask(AJob().After(done, AfterOutcome::kFailure)).error().code == ErrorCode::kNeverFits);
  CHECK(ask(AJob().After(JobId(99))).error().code == ErrorCode::kNotFound);
  CHECK_FALSE(CheckInvariants(CopyForPlan(world.state, AJob().After(blocked).Spec().after)));
}

TEST_CASE("a job waits for its turn from when nothing else is awaited any more") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob(), "ada");
  (void)world.Submit(AJob(), "bob");
  world.Pass(Duration::Minutes(20 * 60));
  JobSpec spec = AJob().Spec();
  spec.nodes = 2;
  spec.after = {{first, AfterOutcome::kSuccess, false}};
  const JobId next(world.state.next_job_id);
  REQUIRE(world.Do(JobSubmitted{next, spec, "eve", ""}));
  world.Pass(Duration::Minutes(60));
  world.Finish(first);
  CHECK(world.At(next).state_since == world.now);
  CHECK(world.ClaimOf(next) == nullptr);
}

}  // namespace tide::testing
