// The thread that answers plans, beside a loop that is held up.

#include "scheduler/server/plan_worker.h"

#include "scheduler/server/testing/server_world.h"

using namespace tide;
using namespace tide::testing;

namespace {

// Counts answers by what they were. Outlives the worker.
struct Answers {
  std::atomic<int> plans = 0;
  std::atomic<int> refusals = 0;
  std::atomic<int> code = 0;  // of the last refusal

  PlanWorker::Question Question() {
    return {AJob().Spec(), "ann", [this](const Result<JobPlan>& plan) {
              if (plan) {
                ++plans;
              } else {
                code = static_cast<int>(plan.error().code);
                ++refusals;
              }
            }};
  }
};

}  // namespace

TEST_CASE("plans are answered and leave nothing in the state or the log") {
  ServerWorld world;
  const auto session = world.Join(Cluster().Leaf(1).Joins().front());
  Answers answers;
  PlanWorker worker(world.loop());
  for (int i = 0; i < 5; ++i) {
    REQUIRE(worker.Ask(answers.Question()));
  }
  REQUIRE(Eventually([&] { return answers.plans == 5; }));
  CHECK(world.Submit(AJob().Spec()).job == JobId(1));
  REQUIRE(Eventually([&] { return !session->kinds().empty(); }));
  CHECK(session->kinds() == std::vector<CommandKind>{CommandKind::kStartTask});
}

TEST_CASE("a plan waits for the loop, as many as there may be; the rest is refused at once") {
  ServerWorld world;
  const auto session = world.Join(Cluster().Leaf(1).Joins().front());
  Answers answers;
  PlanWorker worker(world.loop());
  Gate gate;
  REQUIRE(world.loop().Enqueue(gate.AsRequest()));
  REQUIRE(gate.WaitEntered());
  int taken = 0;
  while (worker.Ask(answers.Question())) {
    REQUIRE(++taken < 1000);
  }
  CHECK(taken >= 64);
  CHECK(answers.plans == 0);
  gate.Open();
  REQUIRE(Eventually([&] { return answers.plans == taken; }));
  CHECK(answers.refusals == 0);
}

TEST_CASE("every question is answered when the scheduler stops") {
  Gate gate;  // outlives the loop that may still look at it
  ServerWorld world;
  Answers answers;
  int taken = 0;
  {
    PlanWorker worker(world.loop());
    REQUIRE(world.loop().Enqueue(gate.AsRequest()));
    REQUIRE(gate.WaitEntered());
    for (; taken < 3; ++taken) {
      REQUIRE(worker.Ask(answers.Question()));
    }
    gate.Open();
  }
  CHECK(answers.plans + answers.refusals == taken);
  CHECK(answers.code ==
        static_cast<int>(ErrorCode::kUnavailable));  // nobody has joined, or stopped
}

TEST_CASE("a loop that takes no more requests refuses plans") {
  ServerWorld world;
  Answers answers;
  PlanWorker worker(world.loop());
  world.loop().Stop();
  REQUIRE(worker.Ask(answers.Question()));
  REQUIRE(Eventually([&] { return answers.refusals == 1; }));
  CHECK(answers.code == static_cast<int>(ErrorCode::kExhausted));
}
