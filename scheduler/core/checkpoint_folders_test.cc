// Two jobs that would save in one folder: the second is refused, unless it follows the first.

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

JobSpec SavingIn(const std::string& name, const std::string& folder) {
  JobSpec spec = AJob().Spec();
  spec.name = name;
  spec.checkpoint_dir = folder;
  return spec;
}

Result<Applied> Submit(World& world, const JobSpec& spec, const std::string& user = "ada") {
  return world.Apply(JobSubmitted{JobId(world.state.next_job_id), spec, user, ""});
}

std::string Refusal(World& world, const JobSpec& spec, const std::string& user = "ada") {
  const Result<Applied> applied = Submit(world, spec, user);
  return applied ? "" : applied.error().message;
}

TEST_CASE("a folder that another job saves in is refused") {
  World world(Cluster().Leaf(2));
  REQUIRE(Submit(world, SavingIn("llm", "/data/ck")));
  const JobId first(1);
  CHECK(Refusal(world, SavingIn("other", "/data/ck")) ==
        "checkpoint.dir: j-1 (llm of ada) saves in /data/ck; give another folder, or run after it: "
        "`after: j-1`");
  CHECK_FALSE(Submit(world, SavingIn("other", "/data//./ck/")));
  CHECK(Submit(world, SavingIn("llm", "/data/ck")));
  CHECK(Submit(world, SavingIn("other", "/data/ck2")));
  CHECK(Submit(world, SavingIn("other", "")));

  world.Cancel(first);
  world.Cancel(JobId(2));
  CHECK(Submit(world, SavingIn("other", "/data/ck")));
}

TEST_CASE("a job keeps nobody else from a folder before it has run there") {
  World world(Cluster().Leaf(2));
  REQUIRE(Submit(world, SavingIn("squat", "/data/of-ada"), "bob"));
  world.Hold(JobId(1));
  CHECK(Submit(world, SavingIn("llm", "/data/of-ada")));
  world.Cancel(JobId(2));
  world.Release(JobId(1));
  world.Run();
  REQUIRE(world.Is(JobId(1)) == JobState::kRunning);
  CHECK(Refusal(world, SavingIn("llm", "/data/of-ada")) ==
        "checkpoint.dir: another user's job saves in /data/of-ada; give another folder");
}

TEST_CASE("a job that runs after another may go on in its folder") {
  World world(Cluster().Leaf(2));
  REQUIRE(Submit(world, SavingIn("train", "/data/ck")));
  JobSpec tune = SavingIn("tune", "/data/ck");
  tune.after = {{JobId(1), AfterOutcome::kSuccess, false}};
  REQUIRE(Submit(world, tune));
  // The last of a chain need not name all before it.
  JobSpec check = SavingIn("check", "/data/ck");
  check.after = {{JobId(2), AfterOutcome::kAny, false}};
  REQUIRE(Submit(world, check));
  check.after = {{JobId(1), AfterOutcome::kAny, false}};
  CHECK(Refusal(world, check).find("j-2 (tune of ada)") != std::string::npos);
}

TEST_CASE("an array holds the folder until its last element is over") {
  World world(Cluster().Leaf(2));
  JobSpec sweep = SavingIn("sweep", "/data/ck");
  sweep.count = 3;
  REQUIRE(Submit(world, sweep));
  JobSpec best = SavingIn("best", "/data/ck");
  best.after = {{JobId(1), AfterOutcome::kAny, false}};
  CHECK_FALSE(Submit(world, best));
  best.after = {{JobId(1), AfterOutcome::kAny, true}};
  CHECK(Submit(world, best));
  for (uint64_t id = 1; id <= 3; ++id) {
    CHECK_FALSE(Submit(world, SavingIn("next", "/data/ck")));
    world.Cancel(JobId(id));
  }
  world.Cancel(JobId(4));
  CHECK(Submit(world, SavingIn("next", "/data/ck")));
}

}  // namespace
}  // namespace tide::testing
