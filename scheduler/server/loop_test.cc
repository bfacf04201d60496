#include "scheduler/server/loop.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "scheduler/core/lease.h"
#include "scheduler/server/testing/server_world.h"

namespace tide {
namespace {

using testing::AJob;
using testing::Cluster;
using testing::Eventually;
using testing::Gate;
using testing::ServerWorld;

const std::vector<NodeJoined>& TwoNodes() {
  static const Cluster kCluster = Cluster().Zone("A").Leaf(2);
  return kCluster.Joins();
}

TaskReported Running(const Command& start, TaskState state = TaskState::kRunning) {
  TaskReported report;
  report.node = start.node;
  report.job = start.job;
  report.epoch = start.epoch;
  report.task = start.task;
  report.state = state;
  if (state == TaskState::kExited) {
    report.exit.reason = ExitReason::kSucceeded;
  }
  return report;
}

TEST_CASE("a job is placed, started, run and forgotten; each command follows its commit") {
  ServerWorld world;
  const auto session = world.Join(TwoNodes()[0]);
  const Reply submitted = world.Submit(AJob().Spec());
  REQUIRE(submitted.status);
  CHECK(submitted.job == JobId(1));
  CHECK(world.View().rev() >= submitted.rev);
  REQUIRE(Eventually([&] { return session->kinds() == std::vector{CommandKind::kStartTask}; }));
  const Command start = session->commands().front();
  REQUIRE(world.Do(EventBody(Running(start))).status);
  CHECK(world.View().jobs(0).state() == tide::v1::JOB_STATE_RUNNING);
  REQUIRE(world.Do(EventBody(Running(start, TaskState::kExited))).status);
  REQUIRE(Eventually([&] { return session->kinds().back() == CommandKind::kForgetTask; }));
  CHECK(world.View().jobs(0).state() == tide::v1::JOB_STATE_FINISHED);
}

TEST_CASE("an agent that connects again gets what is outstanding, also from the next scheduler") {
  ServerWorld world;
  const auto first = world.Join(TwoNodes()[0]);
  REQUIRE(world.Submit(AJob().Spec()).status);
  REQUIRE(Eventually([&] { return first->commands().size() == 1; }));
  const auto second = world.Join(TwoNodes()[0]);
  CHECK(first->closed() == 1);
  REQUIRE(Eventually([&] { return second->kinds() == std::vector{CommandKind::kStartTask}; }));
  const Term term = world.loop().term();
  world.Reopen();
  CHECK(world.loop().term() > term);
  const auto third = world.Join(TwoNodes()[0]);
  REQUIRE(Eventually([&] { return third->kinds() == std::vector{CommandKind::kStartTask}; }));
  CHECK(third->commands() == first->commands());
}

TEST_CASE("a key is known after a restart") {
  ServerWorld world;
  (void)world.Join(TwoNodes()[0]);
  REQUIRE(world.Submit(AJob().Spec(), "k").status);
  world.Reopen();
  const Reply again = world.Submit(AJob().Spec(), "k");
  REQUIRE(again.status);
  CHECK(again.existed);
  CHECK(again.job == JobId(1));
}

TEST_CASE("a leader answers for itself once it leads, and while its lease holds") {
  ServerWorld world;
  CHECK(world.loop().LeaseHolds());
  REQUIRE(world.Do(TwoNodes().front()).status);
  CHECK(world.loop().LeaseHolds());
}

TEST_CASE("a leader that hangs, or slept, for as long as its lease lasts does not answer") {
  Gate gate;
  ServerWorld world;
  REQUIRE(world.loop().Enqueue(gate.AsRequest()));
  REQUIRE(gate.WaitEntered());
  world.Sleep(kLeaseDuration);
  CHECK_FALSE(world.loop().LeaseHolds());
  gate.Open();
  CHECK(Eventually([&] { return world.loop().LeaseHolds(); }));  // proved anew
}

TEST_CASE("a request that fails fails alone") {
  ServerWorld world;
  (void)world.Join(TwoNodes()[0]);
  const Reply never = world.Submit(AJob().Nodes(50).Spec());
  REQUIRE_FALSE(never.status);
  CHECK(never.status.error().code == ErrorCode::kNeverFits);
  const Reply made = world.Do([](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
    return Fail(ErrorCode::kConflict, "no");
  });
  CHECK(made.status.error().message == "no");
  CHECK(world.Submit(AJob().Spec()).status);
}

Request Counted(std::atomic<size_t>& count) {
  return {[](BatchContext&, Reply&) -> Result<std::vector<EventBody>> {
            return std::vector<EventBody>{};
          },
          [&count](const Reply& reply) {
            if (reply.status) {
              ++count;
            }
          }};
}

TEST_CASE("a full queue refuses, and a stop works off what was taken") {
  ServerWorld world;
  Gate gate;
  REQUIRE(world.loop().Enqueue(gate.AsRequest()));
  REQUIRE(gate.WaitEntered());
  std::atomic<size_t> answered = 0;
  size_t taken = 0;
  while (world.loop().Enqueue(Counted(answered))) {
    ++taken;
    REQUIRE(taken < 1'000'000);
  }
  CHECK(taken > 1000);
  CHECK(answered == 0);
  std::thread stop([&] { world.loop().Stop(); });
  gate.Open();
  stop.join();
  CHECK(answered == taken);
  CHECK_FALSE(world.loop().Enqueue(Counted(answered)));
}

TEST_CASE("many threads submit; every job is made once and answered once") {
  ServerWorld world;
  (void)world.Join(TwoNodes()[0]);
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 25;
  std::vector<std::thread> clients;
  std::atomic<size_t> fine = 0;
  for (size_t i = 0; i < kThreads; ++i) {
    clients.emplace_back([&, i] {
      for (size_t n = 0; n < kEach; ++n) {
        const std::string key = std::to_string(i) + "." + std::to_string(n);
        Request request;
        request.make = [key](BatchContext& batch, Reply& reply) {
          return MakeSubmit(batch, reply, AJob().Spec(), "ann", key);
        };
        request.done = [&fine](const Reply& reply) { fine += reply.status ? 1 : 0; };
        if (!world.loop().Enqueue(std::move(request))) {
          return;
        }
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  REQUIRE(Eventually([&] { return fine == kThreads * kEach; }));
  CHECK(world.View().jobs_size() == kThreads * kEach);
}

TEST_CASE("who waits is told when it will start, or why nobody knows") {
  ServerWorld world;
  (void)world.Join(TwoNodes()[0]);
  REQUIRE(world.Submit(AJob().MaxRuntime(Duration::Minutes(60)).Spec()).status);
  REQUIRE(world.Submit(AJob().Spec()).status);
  const auto estimate = [&] {
    const tide::v1::ViewDelta all = world.View();
    for (const tide::v1::Job& job : all.jobs()) {
      if (job.id() == 2) {
        return job.estimate();
      }
    }
    return tide::v1::StartEstimate();
  };
  REQUIRE(Eventually([&] { return estimate().likely() != 0; }));
  CHECK(estimate().basis() == "from 1 max_runtime");
  CHECK(estimate().earliest() <= estimate().likely());
  CHECK(estimate().likely() <= estimate().latest());
}

}  // namespace
}  // namespace tide
