#include "scheduler/server/people/open_jobs.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

Job QueuedBy(uint64_t id, const std::string& user, const std::string& project = "default") {
  Job job;
  job.id = JobId(id);
  job.user = user;
  job.spec.Edit([&](JobSpec& spec) { spec.project = project; });
  return job;
}

JobSpec Wanted(uint32_t count, const std::string& project = "default") {
  JobSpec spec;
  spec.count = count;
  spec.project = project;
  return spec;
}

TEST_CASE("a user, and a project, have so many jobs that have not finished", "[people]") {
  OpenJobs jobs({.of_user = 3, .of_project = 5});
  jobs.Note(QueuedBy(1, "ann"));
  jobs.Note(QueuedBy(1, "ann"));  // it changed, and is one
  CHECK(jobs.Promise("ann", Wanted(2)));
  CHECK_THAT(jobs.Promise("ann", Wanted(1)).error().message,
             Catch::Contains("ann has 3") && Catch::Contains("--user-jobs"));
  // All of these came in one turn.
  CHECK(jobs.Promise("bob", Wanted(2)));
  CHECK_THAT(jobs.Promise("bob", Wanted(1)).error().message,
             Catch::Contains("project default has 5") && Catch::Contains("--project-jobs"));
  CHECK(jobs.Promise("bob", Wanted(1, "vision")));
  // None of them came to be.
  jobs.EndTurn();
  CHECK(jobs.Promise("ann", Wanted(2)));
  jobs.EndTurn();
  Job done = QueuedBy(1, "ann");
  done.phase = Finished();
  jobs.Note(done);
  jobs.Note(done);
  CHECK(jobs.Promise("ann", Wanted(3)));
  CHECK_FALSE(jobs.Promise("carl", Wanted(4)));
}

}  // namespace
}  // namespace tide
