// What decisions read of running jobs, and the numbers of names.

#include "scheduler/core/model/live_jobs.h"

#include <catch2/catch.hpp>

#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

std::set<JobId> IdsOf(const LiveJobs& jobs) {
  std::set<JobId> ids;
  for (const LiveJob& job : jobs.all()) {
    CHECK(jobs.Find(job.id) == &job);
    ids.insert(job.id);
  }
  return ids;
}

}  // namespace

TEST_CASE("names keep their numbers, and an owner is a user in a project") {
  Owners owners;
  const uint32_t ann = owners.Add("vision", "ann");
  const uint32_t bob = owners.Add("vision", "bob");
  const uint32_t other = owners.Add("speech", "ann");
  CHECK(owners.Add("vision", "ann") == ann);
  CHECK(owners.size() == 3);
  CHECK(owners.UserNumber(ann) == owners.UserNumber(other));
  CHECK(owners.UserNumber(ann) != owners.UserNumber(bob));
  CHECK(owners.ProjectNumber(ann) == owners.ProjectNumber(bob));
  CHECK(owners.Project(other) + "/" + owners.User(other) == "speech/ann");
  CHECK(owners.Find("speech", "ann") == other);
  CHECK(owners.Find("speech", "bob") == std::nullopt);  // both names are known
  CHECK(owners.Find("speech", "eve") == std::nullopt);
}

TEST_CASE("live jobs are found while they hold nodes, whichever leaves first") {
  for (const size_t leaver : {size_t{0}, size_t{1}, size_t{2}}) {
    World world(Cluster().Leaf(3));
    std::vector<JobId> jobs;
    for (int i = 0; i < 3; ++i) {
      jobs.push_back(world.Submit(AJob()));
    }
    CHECK(IdsOf(world.state.runners) == std::set<JobId>(jobs.begin(), jobs.end()));
    world.Finish(jobs[leaver]);
    CHECK(world.state.runners.Find(jobs[leaver]) == nullptr);
    CHECK(IdsOf(world.state.runners) == world.state.live);
    world.state.runners.Remove(jobs[leaver]);  // nothing to do
    CHECK(IdsOf(world.state.runners).size() == 2);
  }
}

TEST_CASE(
    "what is lost when a job leaves: nothing of one that saves, else what no checkpoint holds") {
  World world(Cluster().Leaf(1));
  world.agents.prepares = false;
  const JobId job = world.Submit(AJob().Priority(0));
  const auto unsaved = [&] { return world.state.runners.Find(job)->UnsavedAt(world.now); };
  world.Pass(Duration::Minutes(60));
  CHECK(unsaved() == Duration::Minutes(60));
  world.Saved(job, 7);
  CHECK(unsaved() == Duration());
  world.Pass(Duration::Minutes(5));
  CHECK(unsaved() == Duration());  // whose ranks speak the protocol saves when it is asked
  world.agents.saves = false;
  const JobId high = world.Submit(AJob().Priority(30));
  world.Pass(Duration::Minutes(5));  // the notice is over
  REQUIRE(world.Is(high) == JobState::kRunning);
  world.Finish(high);
  world.Pass(Duration::Minutes(10));
  REQUIRE(world.Is(job) == JobState::kRunning);
  CHECK(unsaved() == Duration::Minutes(10));  // it did not
  world.Saved(job, 9);
  world.Pass(Duration::Minutes(3));
  CHECK(unsaved() == Duration::Minutes(3));
}

TEST_CASE("a job that is asked to leave while it starts may save all the same when it runs") {
  World world(Cluster().Leaf(1));
  const JobId job = world.Submit(AJob().Priority(0));
  world.agents.starts = false;
  for (int i = 0; i < 2; ++i) {  // it saved once, then it is asked before it runs
    const JobId high = world.Submit(AJob().Priority(30));
    world.agents.starts = true;
    world.Run();
    world.agents.starts = false;
    world.Finish(high);
  }
  REQUIRE(world.Is(job) == JobState::kStarting);
  CHECK(world.At(job).attempts.size() == 3);
  CHECK(world.state.runners.Find(job)->saves);
}

}  // namespace tide::testing
