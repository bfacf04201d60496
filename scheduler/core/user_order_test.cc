// A user's own order: `tide move` inside one queue, and what it does to who starts.

#include "scheduler/core/model/user_order.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "scheduler/core/testing/compare.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

Result<Applied> Move(World& world, JobId job, JobId before = JobId()) {
  return world.Apply(JobMoved{job, before, "ada"});
}

// A full node, and jobs of ada that wait for it.
struct Full {
  World world{Cluster().Leaf(1)};
  JobId runs = world.Submit(AJob());
  std::vector<JobId> queue;

  explicit Full(int count) {
    for (int i = 0; i < count; ++i) {
      queue.push_back(world.Submit(AJob()));
    }
  }
  // In the order in which they are looked at.
  [[nodiscard]] std::vector<JobId> Order() const {
    std::vector<JobId> order;
    for (const WaitingJob& job : world.state.queue.queues().begin()->second.InOrder()) {
      order.push_back(job.id);
    }
    return order;
  }
};

}  // namespace

TEST_CASE("what is moved to the front starts next") {
  Full full(3);
  const auto [a, b, c] = std::tie(full.queue[0], full.queue[1], full.queue[2]);
  REQUIRE(Move(full.world, c));
  CHECK(full.Order() == std::vector{c, a, b});
  full.world.Finish(full.runs);
  CHECK(full.world.Is(c) == JobState::kRunning);
  full.world.Finish(c);
  CHECK(full.world.Is(a) == JobState::kRunning);
}

TEST_CASE("what is moved before another stands right before it") {
  Full full(4);
  const std::vector<JobId> q = full.queue;
  REQUIRE(Move(full.world, q[3], q[1]));
  CHECK(full.Order() == std::vector{q[0], q[3], q[1], q[2]});
  REQUIRE(Move(full.world, q[0], q[2]));
  CHECK(full.Order() == std::vector{q[3], q[1], q[0], q[2]});
  const JobId last = full.world.Submit(AJob());
  CHECK(full.Order().back() == last);  // whoever comes is the last
  CHECK(*Move(full.world, q[3], q[1]) == Applied::kNoOp);
  CHECK(*Move(full.world, q[3]) == Applied::kNoOp);
}

TEST_CASE("any moves end as a list would have it") {
  Prng prng(5);
  Full full(8);
  std::vector<JobId> model = full.queue;
  for (int i = 0; i < 400; ++i) {
    const JobId job = full.queue[prng.Below(8)];
    const JobId before = prng.Below(4) == 0 ? JobId() : full.queue[prng.Below(8)];
    const auto moved = Move(full.world, job, before);
    REQUIRE(moved.has_value() == (job != before));
    if (moved) {
      std::erase(model, job);
      model.insert(before == JobId() ? model.begin() : std::ranges::find(model, before), job);
    }
    REQUIRE(full.Order() == model);
  }
}

TEST_CASE("few ranks change: the moved job's, and of those before it only what must") {
  Full full(5);
  const std::vector<JobId> q = full.queue;
  REQUIRE(Move(full.world, q[4]));
  CHECK(full.world.last.changed.jobs == std::set{q[4]});
  REQUIRE(Move(full.world, q[3], q[1]));
  CHECK(full.world.last.changed.jobs == std::set{q[0], q[3], q[4]});
}

TEST_CASE("a job moves among those of its own user, project and priority that wait") {
  World world(Cluster().Leaf(1));
  const JobId runs = world.Submit(AJob().Priority(40));
  const JobId job = world.Submit(AJob());
  const JobId bobs = world.Submit(AJob(), "bob");
  const JobId high = world.Submit(AJob().Priority(20));
  const JobId other = world.Submit(AJob().Project("llm"));
  const JobId held = world.Submit(AJob());
  world.Hold(held);
  const ClusterState before = world.state;
  struct Case {
    JobId job;
    JobId before;
    ErrorCode code;
    std::string message;
  };
  const Case cases[] = {
      {job,
       bobs,
       ErrorCode::kPermissionDenied,
       "j-3 belongs to bob, j-2 to ada: a job moves among those of its own user"},
      {job,
       high,
       ErrorCode::kConflict,
       "j-4 has priority above-normal, j-2 normal: a job moves among those of its own priority"},
      {job,
       other,
       ErrorCode::kConflict,
       "j-5 is of project llm, j-2 of default: a job moves among those of its own project"},
      {job,
       held,
       ErrorCode::kConflict,
       "j-6 is held: only a job that is queued has a place in the order"},
      {runs,
       JobId(),
       ErrorCode::kConflict,
       "j-1 is running: only a job that is queued has a place in the order"},
      {job, JobId(77), ErrorCode::kNotFound, "j-77: no such job"},
      {job, job, ErrorCode::kInvalidArgument, "j-2 cannot stand before itself"},
  };
  for (const Case& each : cases) {
    const auto moved = Move(world, each.job, each.before);
    REQUIRE_FALSE(moved);
    CHECK(moved.error().code == each.code);
    CHECK(moved.error().message == each.message);
    CHECK(Difference(before, world.state).empty());
  }
}

TEST_CASE("the order of others does not change, and a suspended job keeps its place") {
  World world(Cluster().Leaf(1));
  (void)world.Submit(AJob().Priority(30));
  const JobId bobs = world.Submit(AJob(), "bob");
  const JobId first = world.Submit(AJob());
  const JobId second = world.Submit(AJob());
  REQUIRE(Move(world, second));
  CHECK(world.At(bobs).queue_rank == 0);
  CHECK(world.At(first).queue_rank == 0);
  world.Hold(second);
  world.Release(second);
  CHECK(ComesFirst(world.At(second), world.At(first)));
}

TEST_CASE("a job that waits for another can be moved, and takes its place when it may start") {
  Full full(2);
  World& world = full.world;
  const JobId blocked = world.Submit(AJob().After(full.runs));
  REQUIRE(Move(world, blocked));
  CHECK(full.Order() == full.queue);
  world.Finish(full.runs);
  CHECK(world.Is(blocked) == JobState::kRunning);
}

}  // namespace tide::testing
