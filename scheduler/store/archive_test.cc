// Archived jobs: their rows move, whole or not at all; a load gives the state without them.

#include "scheduler/store/archive.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {
namespace {

using testing::Count;
using testing::Driver;
using testing::Join;
using testing::kNow;
using testing::MakeDatabase;
using testing::MustOpenStore;
using testing::RandomWorld;
using testing::Submit;

std::vector<SqlRow> Rows(Database& database, const std::string& query) {
  const auto found = database.Run(query, {});
  if (!found) {
    FAIL(found.error().message);
  }
  return found->rows;
}

Policy KeepingFew() {
  Policy policy;
  policy.finished_max = 3;
  policy.keep_finished = Duration::Minutes(30);
  policy.keep_incidents = Duration::Minutes(60);
  return policy;
}

// What people read of jobs, live or archived.
std::vector<SqlRow> Reports(Database& database) {
  std::vector<SqlRow> rows;
  for (const char* query :
       {"SELECT day, project, user_name, jobs, attempts, CAST(round(gpu_hours * 1000) AS BIGINT), "
        "CAST(round(node_hours * 1000) AS BIGINT) FROM usage_by_day ORDER BY 1, 2, 3",
        "SELECT day, project, priority, jobs, longest_wait_seconds FROM waits_by_day "
        "ORDER BY 1, 2, 3",
        "SELECT * FROM failures ORDER BY job, epoch, node_name, exit_reason",
        "SELECT seq, type, job, job_name, user_name FROM history WHERE type <> 'jobs_archived' "
        "ORDER BY seq"}) {
    const std::vector<SqlRow> found = Rows(database, query);
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return rows;
}

TEST_CASE("a load without the archived jobs gives the same state", "[archive]") {
  const uint64_t seed = GENERATE(range(1, 5));
  CAPTURE(seed);
  const auto test =
      MakeDatabase(seed < 3 ? GENERATE(Driver::kSqlite, Driver::kPostgres) : Driver::kSqlite);
  auto store = MustOpenStore(test->Open(), "a", kNow);
  const auto reader = test->OpenShared();
  RandomWorld world(seed, ClusterState(), KeepingFew());
  std::map<JobId, Job> ended;
  for (int turn = 0; turn < 300; ++turn) {
    const ClusterState before = world.state();
    const StepResult step = world.Turn();
    for (const JobId id : step.changed.archived) {
      ended.emplace(id, before.jobs.at(id));
    }
    REQUIRE_FALSE(CheckInvariants(world.state()));
    REQUIRE(store->Commit(world.state(), step, world.now()));
    if (turn % 40 == 39) {
      store.reset();
      store = MustOpenStore(test->Open(), "a", world.now());
      REQUIRE(store->Load());
    }
    const auto loaded = LoadState(*reader);
    if (!loaded) {
      FAIL(loaded.error().message);
    }
    REQUIRE(EncodeState(*loaded) == EncodeState(world.state()));
    REQUIRE(loaded->run_history == world.state().run_history);
    REQUIRE(loaded->finished == world.state().finished);
    REQUIRE(loaded->job_by_key == world.state().job_by_key);
  }
  REQUIRE(ended.size() > 2);
  CHECK(Count(*reader, "archived_jobs") == static_cast<int64_t>(ended.size()));
  for (const auto& [id, job] : ended) {
    const auto found = LoadArchivedJob(*reader, id);
    REQUIRE(found);
    CHECK(*found == job);
    CHECK(Count(*reader, "jobs WHERE id = " + std::to_string(id.value())) == 0);
    CHECK(world.state().FindJob(id) == nullptr);
  }
  CHECK(LoadArchivedJob(*reader, JobId(999'999)).error().code == ErrorCode::kNotFound);
  // The log is whole, with what of it is archived.
  const auto events = LoadEvents(*reader, 0, 1'000'000);
  REQUIRE(events);
  CHECK(static_cast<int64_t>(events->size()) == store->last_seq());
}

TEST_CASE("reports say the same before and after jobs are archived", "[archive]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto store = MustOpenStore(test->Open(), "a", kNow);
  RandomWorld world(7, ClusterState());
  for (int turn = 0; turn < 200; ++turn) {
    REQUIRE(store->Commit(world.state(), world.Turn(), world.now()));
  }
  const std::vector<SqlRow> before = Reports(store->database());
  REQUIRE(before.size() > 20);
  ClusterState state = world.state();
  const StepResult step = Step(state, {}, KeepingFew(), world.now());
  REQUIRE(step.changed.archived.size() > 2);
  REQUIRE(step.log.size() == 1);
  REQUIRE(store->Commit(state, step, world.now()));
  CHECK(Reports(store->database()) == before);
}

TEST_CASE("jobs are archived whole or not at all", "[archive]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto reader = test->OpenShared();
  ClusterState state;
  std::string committed;
  {
    auto store = MustOpenStore(test->Open(), "a", kNow);
    std::vector<Event> events = {{Instant(), Join(0)}};
    for (uint64_t id = 1; id <= 40; ++id) {
      events.push_back({Instant(), Submit(id, 1, 10)});
      events.push_back({Instant(), CancelRequested{JobId(id), "ada", ""}});
    }
    REQUIRE(store->Commit(state, Step(state, events, Policy(), kNow), kNow));
    committed = EncodeState(*LoadState(*reader));
    // The archive takes no more: the whole step is undone.
    REQUIRE(store->database().RunScript(
        "INSERT INTO archived_events (seq, at_ns, type, data) VALUES (42, 0, '', '')"));
    const Instant later = kNow + Duration::Minutes(60);
    const StepResult step = Step(state, {}, KeepingFew(), later);
    REQUIRE(step.changed.archived.size() == 40);
    CHECK_FALSE(store->Commit(state, step, later));
  }
  CHECK(EncodeState(*LoadState(*reader)) == committed);
  CHECK(Count(*reader, "archived_jobs") == 0);
  CHECK(Count(*reader, "events WHERE job IS NOT NULL") == 80);

  const auto store = MustOpenStore(test->Open(), "a", kNow + Duration::Minutes(61));
  REQUIRE(store->database().RunScript("DELETE FROM archived_events"));
  auto loaded = store->Load();
  REQUIRE(loaded);
  const Instant later = kNow + Duration::Minutes(62);
  const StepResult step = Step(*loaded, {}, KeepingFew(), later);
  REQUIRE(store->Commit(*loaded, step, later));
  CHECK(Count(*reader, "jobs") == 0);
  CHECK(Count(*reader, "archived_jobs") == 40);
  CHECK(Count(*reader, "archived_events") == 80);
  CHECK(Count(*reader, "events WHERE job IS NOT NULL") == 0);
  CHECK(store->Load()->next_job_id == 41);  // no number is given again
}

}  // namespace
}  // namespace tide
