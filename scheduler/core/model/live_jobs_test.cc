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

}  // namespace tide::testing
