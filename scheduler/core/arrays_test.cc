// Arrays: one submission, many jobs; what waits for all of them; orders to several at once.

#include <catch2/catch.hpp>

#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/requests.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"
#include "scheduler/core/whatif.h"

namespace tide::testing {
namespace {

constexpr JobState kQueued = JobState::kQueued;
constexpr JobState kRunning = JobState::kRunning;
constexpr JobState kFinished = JobState::kFinished;

std::vector<JobState> StatesOf(const World& world, JobId first, uint32_t count) {
  std::vector<JobState> states;
  for (uint64_t i = 0; i < count; ++i) {
    states.push_back(world.Is(JobId(first.value() + i)));
  }
  return states;
}

Result<size_t> Order(World& world, const JobOrder& order) {
  BatchContext context(world.state, world.now);
  TIDE_ASSIGN(const std::vector<EventBody> events, MakeJobOrder(context, order, world.policy));
  world.Turn(events);
  world.Run();
  return events.size();
}

JobOrder Elements(JobVerb verb, JobId first, uint32_t count) {
  JobOrder order;
  order.job = first;
  order.count = count;
  order.verb = verb;
  order.actor = "ada";
  return order;
}

}  // namespace

TEST_CASE("an array is one event and as many jobs, with ids in a row") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob().Count(3));
  CHECK(StatesOf(world, first, 3) == std::vector{kRunning, kRunning, kQueued});
  CHECK(world.state.next_job_id == 4);
  for (uint32_t i = 0; i < 3; ++i) {
    const Job& element = world.At(JobId(first.value() + i));
    CHECK(element.array == first);
    CHECK(element.array_index == i);
    CHECK(element.spec->count == 3);
  }
  const JobId single = world.Submit(AJob());
  CHECK(world.At(single).array == JobId());
  world.Finish(first);
  CHECK(world.Is(JobId(3)) == kRunning);
}

TEST_CASE("one key is one array, and ids of one batch do not meet") {
  World world(Cluster().Leaf(1));
  BatchContext context(world.state, world.now);
  Reply reply;
  const auto array = MakeSubmit(context, reply, AJob().Count(5).Spec(), "ada", "k");
  REQUIRE(array);
  CHECK(array->size() == 1);
  const auto next = MakeSubmit(context, reply, AJob().Spec(), "ada", "");
  CHECK(reply.job == JobId(6));
  world.Turn({array->front(), next->front()});
  CHECK(world.state.jobs.size() == 6);
  BatchContext again(world.state, world.now);
  const auto none = MakeSubmit(again, reply, AJob().Count(5).Spec(), "ada", "k");
  REQUIRE(none);
  CHECK(none->empty());
  CHECK(reply.job == JobId(1));
  CHECK_FALSE(MakeSubmit(again, reply, AJob().Count(4).Spec(), "ada", "k"));
  for (const uint32_t count : {0U, kArrayCountMax + 1}) {
    CHECK(MakeSubmit(again, reply, AJob().Count(count).Spec(), "ada", "").error().code ==
          ErrorCode::kInvalidArgument);
  }
  CHECK(MakeSubmit(again, reply, AJob().Count(kArrayCountMax).Spec(), "ada", ""));
}

TEST_CASE("a refused array leaves nothing behind") {
  World world(Cluster().Leaf(1));
  const ClusterState before = world.state;
  CHECK_FALSE(world.Apply(JobSubmitted{JobId(1), AJob().Nodes(2).Count(9).Spec(), "ada", ""}));
  CHECK_FALSE(
      world.Apply(JobSubmitted{JobId(1), AJob().Count(9).After(JobId(3)).Spec(), "ada", ""}));
  CHECK(Difference(before, world.state).empty());
}

TEST_CASE("every end of an array meets every wish of one that waits for all of it") {
  struct Case {
    bool fails;  // one of two elements
    AfterOutcome on;
    JobState early;  // after the first end, which is that of the failing one
    JobState then;
  };
  const Case cases[] = {
      {false, AfterOutcome::kSuccess, kQueued, kRunning},
      {false, AfterOutcome::kFailure, kQueued, kFinished},
      {false, AfterOutcome::kAny, kQueued, kRunning},
      {true, AfterOutcome::kSuccess, kFinished, kFinished},
      {true, AfterOutcome::kFailure, kQueued, kRunning},
      {true, AfterOutcome::kAny, kQueued, kRunning},
  };
  for (const Case& each : cases) {
    World world(Cluster().Leaf(4));
    const JobId array = world.Submit(AJob().Count(2));
    const JobId job = world.Submit(AJob().AfterAll(array, each.on));
    const JobId one = world.Submit(AJob().After(array, AfterOutcome::kAny));
    CHECK(world.Is(job) == kQueued);
    each.fails ? world.Cancel(array) : world.Finish(array);
    CHECK(world.Is(one) == kRunning);  // waits for the first element alone
    CHECK(world.Is(job) == each.early);
    world.Finish(JobId(2));
    INFO(world.At(job).detail);
    CHECK(world.Is(job) == each.then);
    const auto late = world.Apply(JobSubmitted{
        JobId(world.state.next_job_id), AJob().AfterAll(array, each.on).Spec(), "ada", ""});
    CHECK(late.has_value() == (each.then == kRunning));
  }
}

TEST_CASE("only the first element names an array") {
  World world(Cluster().Leaf(3));
  const JobId array = world.Submit(AJob().Count(2));
  const JobId single = world.Submit(AJob());
  const auto message = [&](JobId job) {
    return world
        .Apply(JobSubmitted{JobId(world.state.next_job_id), AJob().AfterAll(job).Spec(), "ada", ""})
        .error()
        .message;
  };
  CHECK(message(single) == "after: j-3[]: j-3 begins no array");
  CHECK(message(JobId(2)) == "after: j-2[]: j-2 begins no array; j-1 does");
  CHECK(message(JobId(9)) == "after: j-9[]: no such job; see `tide ps --all`");
  CHECK(array == JobId(1));
}

TEST_CASE("who waits for an array says so, with a way to look at it") {
  World world(Cluster().Leaf(1));
  const JobId array = world.Submit(AJob().Count(2));
  const JobId job = world.Submit(AJob().AfterAll(array));
  CHECK(DescribeReason(world.At(job), world.ReasonsOf(job).front()) ==
        ReasonText{"held.dependency",
                   "waits for the success of j-1[]",
                   "tide why 'j-1[]': how far that is"});
  CHECK(world.Why(job) == std::vector<std::string>{"held.dependency"});
}

TEST_CASE("a failure runs through a chain of arrays at once") {
  World world(Cluster().Leaf(1));
  const JobId first = world.Submit(AJob().Count(1000));
  const JobId second = world.Submit(AJob().Count(1000).AfterAll(first));
  const JobId third = world.Submit(AJob().AfterAll(second));
  const JobId cleanup = world.Submit(AJob().Priority(30).AfterAll(second, AfterOutcome::kFailure));
  world.Cancel(JobId(500));
  CHECK(world.Is(second) == kFinished);
  CHECK(world.At(third).detail ==
        "j-1001[] has an element that failed or was cancelled, and this job runs only after the "
        "success of all");
  CHECK(world.Is(cleanup) == kRunning);
  CHECK(world.state.dependencies.blocked.empty());
  CHECK(world.state.dependencies.arrays.at(second) == ArrayTally{0, 1000});
}

TEST_CASE("an order to elements reaches those for which it means something") {
  World world(Cluster().Leaf(2));
  const JobId first = world.Submit(AJob().Count(5));
  world.Finish(first);
  CHECK(Order(world, Elements(JobVerb::kSuspend, first, 3)) == 2U);
  CHECK(world.Is(JobId(2)) == JobState::kHeld);
  CHECK(world.Is(JobId(4)) == kRunning);
  CHECK(Order(world, Elements(JobVerb::kResume, first, 5)) == 2U);
  CHECK(Order(world, Elements(JobVerb::kCancel, JobId(2), 4)) == 4U);
  CHECK(StatesOf(world, first, 5) == std::vector(5, kFinished));
  const auto nothing = Order(world, Elements(JobVerb::kCancel, first, 5));
  CHECK(nothing.error().code == ErrorCode::kConflict);
  CHECK(Order(world, Elements(JobVerb::kCancel, JobId(4), 3)).error().code ==
        ErrorCode::kNotFound);  // beyond its end
  const JobId single = world.Submit(AJob());
  CHECK(Order(world, Elements(JobVerb::kCancel, single, 2)).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a plan of an array is that of its first element, after arrays, too") {
  World world(Cluster().Leaf(1));
  const JobId array = world.Submit(AJob().Count(2));
  const auto ask = [&](const AJob& job) {
    return PlanJob(
        CopyForPlan(world.state, job.Spec().after), world.policy, job.Spec(), "ada", world.now);
  };
  CHECK(ask(AJob().Count(100))->verdict == PlanVerdict::kQueues);
  CHECK(ask(AJob().AfterAll(array))->reasons.front().code == "held.dependency");
  world.Finish(array);
  world.Finish(JobId(2));
  CHECK(ask(AJob().Count(100))->verdict == PlanVerdict::kStarts);
  CHECK(ask(AJob().AfterAll(array))->verdict == PlanVerdict::kStarts);
  CHECK(ask(AJob().AfterAll(array, AfterOutcome::kFailure)).error().code == ErrorCode::kNeverFits);
}

}  // namespace tide::testing
