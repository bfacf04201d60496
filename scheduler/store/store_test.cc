#include "scheduler/store/store.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "scheduler/core/lease.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/lease.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::Count;
using testing::Driver;
using testing::EachDriver;
using testing::Join;
using testing::kNow;
using testing::MakeDatabase;
using testing::MustOpen;
using testing::MustOpenStore;
using testing::RandomWorld;
using testing::Submit;
using testing::TempDir;

StepResult StepOne(ClusterState& state, EventBody body, Instant now) {
  const std::vector<Event> events = {{Instant(), std::move(body)}};
  return Step(state, events, Policy(), now);
}

void RequireSameDerived(const ClusterState& loaded, const ClusterState& state) {
  REQUIRE(loaded.uses == state.uses);
  REQUIRE(loaded.waiting == state.waiting);
  REQUIRE(loaded.live == state.live);
  REQUIRE(loaded.node_by_name == state.node_by_name);
  REQUIRE(loaded.job_by_key == state.job_by_key);
}

TEST_CASE("a lease lasts while a large state is loaded", "[store]") {
  const auto files = EachDriver();
  {
    const auto store = MustOpenStore(files->Open(), "a", kNow);
    ClusterState state;
    for (uint32_t node = 0; node < 10; ++node) {
      const StepResult step = StepOne(state, Join(node), kNow);
      REQUIRE(store->Commit(state, step, kNow));
    }
    REQUIRE(store->Release(kNow));
  }
  // Each look at the clock takes three seconds: reading ten nodes takes longer than the lease.
  int64_t clock_ns = 0;
  auto loading = Store::Open(
      files->Open(), "b", kNow, [&] { return clock_ns += Duration::Seconds(3).nanos(); });
  REQUIRE(loading);
  REQUIRE((*loading)->Load());
  REQUIRE(clock_ns > 2 * kLeaseDuration.nanos());
  const auto reader = files->OpenShared();
  const Status other = CheckLeaseIsFree(*reader, {"c", kNow + Duration::Nanos(clock_ns)});
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::kNotLeader);
}

TEST_CASE("a long queue is loaded whole", "[store]") {
  const auto test = EachDriver();
  const auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  JobSubmitted submit = Submit(1, 1, 10);
  submit.spec.Edit([](JobSpec& spec) { spec.count = 5000; });
  for (const EventBody& body : {EventBody(Join(0)), EventBody(submit)}) {
    REQUIRE(store->Commit(state, StepOne(state, body, kNow), kNow));
  }
  REQUIRE(store->Commit(state, StepOne(state, Submit(5001, 1, 10), kNow), kNow));
  const auto loaded = store->Load();
  REQUIRE(loaded);
  CHECK(loaded->jobs.size() == 5001);
  CHECK(EncodeState(*loaded) == EncodeState(state));
}

TEST_CASE("after every commit a load gives the same state", "[store]") {
  const uint64_t seed = GENERATE(range(1, 6));
  CAPTURE(seed);
  // The drivers differ in what two worlds show as well as five.
  const auto driver = seed < 3 ? GENERATE(Driver::kSqlite, Driver::kPostgres) : Driver::kSqlite;
  const auto test = MakeDatabase(driver);
  const auto reader = test->OpenShared();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  auto initial = store->Load();
  REQUIRE(initial);
  RandomWorld world(seed, std::move(*initial));
  std::vector<std::string> logged;
  for (int turn = 0; turn < 160; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE_FALSE(CheckInvariants(world.state()));
    REQUIRE(store->Commit(world.state(), step, world.now()));
    for (const Event& event : step.log) {
      logged.push_back(EncodeEventBody(event.body));
    }
    if (turn % 40 == 39) {  // go on as after a restart
      store.reset();
      store = MustOpenStore(test->Open(), "a", world.now());
      REQUIRE(store->Load());
    }
    const auto loaded = LoadState(*reader);
    if (!loaded) {
      FAIL(loaded.error().message);
    }
    REQUIRE(EncodeState(*loaded) == EncodeState(world.state()));
    RequireSameDerived(*loaded, world.state());
  }
  const auto events = LoadEvents(*reader, 0, 1'000'000);
  REQUIRE(events);
  REQUIRE(events->size() == logged.size());
  for (size_t i = 0; i < logged.size(); ++i) {
    REQUIRE((*events)[i].seq == static_cast<int64_t>(i) + 1);
    REQUIRE(EncodeEventBody((*events)[i].event.body) == logged[i]);
  }
  CHECK(store->last_seq() == static_cast<int64_t>(logged.size()));
  CHECK(store->term() > Term(4));
}

TEST_CASE("a fault that is forgotten does not come back, nor its id", "[store]") {
  const auto test = EachDriver();
  Policy policy;
  policy.keep_incidents = Duration::Minutes(60);
  ClusterState state;
  const auto commit = [&](Store& store, std::vector<Event> events, Instant now) {
    const StepResult step = Step(state, events, policy, now);
    REQUIRE(store.Commit(state, step, now));
    return step;
  };
  const auto load = [&](Store& store) {
    auto loaded = store.Load();
    REQUIRE(loaded);
    REQUIRE_FALSE(CheckInvariants(*loaded));
    return std::move(*loaded);
  };
  const auto fault = [&](const char* device) {
    return Event{Instant(), FaultObserved{NodeId(0), FaultKind::kXid, 13, device, "", kNow}};
  };
  auto store = MustOpenStore(test->Open(), "a", kNow);
  commit(*store, {{Instant(), Join(0)}, fault("a"), fault("b")}, kNow);
  commit(*store, {{Instant(), IncidentCleared{IncidentId(2)}}}, kNow);
  const Instant later = kNow + Duration::Minutes(61);
  const auto reader = test->OpenShared();

  // The scheduler is killed after the event and before the commit: nothing was forgotten.
  {
    ClusterState lost = state;
    const StepResult step = Step(lost, {}, policy, later);
    REQUIRE(step.log.size() == 1);
    REQUIRE(EventName(step.log.front().body) == "incidents_forgotten");
  }
  store.reset();
  store = MustOpenStore(test->Open(), "b", later);
  state = load(*store);
  REQUIRE(state.incidents.size() == 2);
  CHECK(Count(*reader, "incidents") == 2);

  // The next one forgets it anew.
  CHECK(commit(*store, {}, later).log.size() == 1);
  CHECK(Count(*reader, "incidents") == 1);
  CHECK(Count(*reader, "events WHERE type = 'incidents_forgotten'") == 1);
  store.reset();
  store = MustOpenStore(test->Open(), "c", later);
  const ClusterState loaded = load(*store);
  CHECK(loaded.incidents == state.incidents);
  CHECK(loaded.incidents.size() == 1);
  CHECK(loaded.incidents.contains(IncidentId(1)));  // it is open
  CHECK(loaded.open_incidents == state.open_incidents);
  CHECK(loaded.next_incident_id == 3);
}

TEST_CASE("the columns tell people what happened", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  REQUIRE(store->Commit(state, StepOne(state, Join(0), kNow), kNow));
  REQUIRE(store->Commit(state, StepOne(state, Submit(1, 1, 30), kNow), kNow));
  Database& db = store->database();
  const auto job = db.Run(
      "SELECT name, user_name, state, priority, nodes, submitted_at, starts, "
      "wait_seconds, outcome FROM jobs",
      {});
  REQUIRE(job);
  CHECK(job->rows.at(0) == SqlRow{"train-1",
                                  "ada",
                                  "starting",
                                  int64_t{30},
                                  int64_t{1},
                                  FormatRfc3339(kNow),
                                  int64_t{1},
                                  0.0,
                                  std::monostate{}});
  const auto node = db.Run("SELECT name, state, job, gpus FROM nodes", {});
  CHECK(node->rows.at(0) == SqlRow{"node-0", "ready", int64_t{1}, int64_t{8}});
  const auto events = db.Run("SELECT seq, type, job, node FROM events ORDER BY seq", {});
  CHECK(events->rows == std::vector<SqlRow>{
                            {int64_t{1}, "node_joined", std::monostate{}, int64_t{0}},
                            {int64_t{2}, "job_submitted", int64_t{1}, std::monostate{}},
                            {int64_t{3}, "job_placed", int64_t{1}, std::monostate{}},
                        });
  CHECK(Count(db, "attempts WHERE released_at IS NULL") == 1);
  CHECK(Count(db, "tasks WHERE state = 'assigned'") == 1);
}

TEST_CASE("verdicts stay in the history", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  REQUIRE(store->Commit(state, StepOne(state, Join(0), kNow), kNow));
  for (const char* word : {"pass", "fail"}) {
    const ValidationRequested request{NodeId(0), word, "ada"};
    REQUIRE(store->Commit(state, StepOne(state, request, kNow), kNow));
    const ValidationReported report{NodeId(0), word, {{"gpu", word, 2.5, "TFLOPS", "", 1, kNow}}};
    REQUIRE(store->Commit(state, StepOne(state, report, kNow), kNow));
  }
  const auto found = store->database().Run(
      "SELECT node, request_id, validator, verdict, value FROM validations ORDER BY seq", {});
  REQUIRE(found);
  CHECK(found->rows == std::vector<SqlRow>{{int64_t{0}, "pass", "gpu", "pass", 2.5},
                                           {int64_t{0}, "fail", "gpu", "fail", 2.5}});
}

TEST_CASE("a report of one task writes one task", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  for (uint32_t node = 0; node < 4; ++node) {
    REQUIRE(store->Commit(state, StepOne(state, Join(node), kNow), kNow));
  }
  REQUIRE(store->Commit(state, StepOne(state, Submit(1, 4, 10), kNow), kNow));
  REQUIRE(store->database().RunScript("UPDATE tasks SET message = 'untouched'"));
  TaskReported report;
  report.job = JobId(1);
  report.epoch = Epoch(1);
  report.task = 2;
  report.node = state.jobs.at(JobId(1)).attempts.back().tasks.at(2).node;
  report.state = TaskState::kRunning;
  REQUIRE(store->Commit(state, StepOne(state, report, kNow), kNow));
  CHECK(Count(store->database(), "tasks WHERE message = 'untouched'") == 3);
}

TEST_CASE("ids are not given twice", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  state.next_job_id = 42;
  state.next_incident_id = 17;
  REQUIRE(store->Commit(state, StepOne(state, Join(0), kNow), kNow));
  const auto loaded = store->Load();
  REQUIRE(loaded);
  CHECK(loaded->next_job_id == 42);
  CHECK(loaded->next_incident_id == 17);
}

TEST_CASE("an empty step writes only the lease, when it is due", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  const ClusterState state;
  const auto expires = [&] {
    const auto found = store->database().Run("SELECT expires_ns FROM leases", {});
    return Instant::FromUnixNanos(std::get<int64_t>(found->rows.at(0).at(0)));
  };
  REQUIRE(store->Commit(state, {}, kNow + kLeaseRenewal - Duration::Millis(1)));
  CHECK(expires() == kNow + kLeaseDuration);
  CHECK(store->renewals() == 0);
  REQUIRE(store->Commit(state, {}, kNow + kLeaseRenewal));
  CHECK(store->renewals() == 1);
  CHECK(expires() == kNow + kLeaseRenewal + kLeaseDuration);
}

TEST_CASE("a standby waits for the lease, a deposed leader writes nothing", "[lease]") {
  const auto test = EachDriver();
  auto old_leader = MustOpenStore(test->OpenShared(), "old", kNow);
  const auto refused = Store::Open(test->OpenShared(), "new", kNow);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNotLeader);
  CHECK_THAT(refused.error().message, Contains("old leads (term 1750000000)"));

  const Instant later = kNow + kLeaseDuration;
  auto new_leader = MustOpenStore(test->OpenShared(), "new", later);
  CHECK(new_leader->term() == Term(kNow.unix_nanos() / 1'000'000'000 + 15));
  ClusterState state;
  const StepResult step = StepOne(state, Join(0), later);
  const Status stale = old_leader->Commit(state, step, later);
  REQUIRE_FALSE(stale);
  CHECK(stale.error().code == ErrorCode::kStaleTerm);
  CHECK_THAT(stale.error().message, Contains("new leads with term 1750000015"));
  CHECK(Count(new_leader->database(), "events") == 0);
  CHECK(Count(new_leader->database(), "nodes") == 0);
  // Once failed, always failed: memory is ahead of the log.
  CHECK(old_leader->Commit(state, {}, later).error().code == ErrorCode::kStaleTerm);
  CHECK(new_leader->Commit(state, step, later));
}

TEST_CASE("a leader whose lease is taken writes nothing, also right after a commit", "[lease]") {
  const auto test = EachDriver();
  int64_t clock_ns = Duration::Seconds(100).nanos();
  auto opened = Store::Open(test->OpenShared(), "old", kNow, [&] { return clock_ns; });
  REQUIRE(opened);
  Store& old_leader = **opened;
  ClusterState state;
  REQUIRE(old_leader.Commit(state, StepOne(state, Join(0), kNow), kNow));
  REQUIRE(old_leader.Commit(state, StepOne(state, Join(1), kNow), kNow));
  const auto other = test->OpenShared();
  const StepResult step = StepOne(state, Join(2), kNow);
  const auto refuses = [&](ErrorCode code, const std::string& words) {
    const Status stale = old_leader.Commit(state, step, kNow);
    REQUIRE_FALSE(stale);
    CHECK(stale.error().code == code);
    CHECK_THAT(stale.error().message, Contains(words));
    CHECK(Count(*other, "nodes") == 2);
  };
  SECTION("by another") {
    auto new_leader = MustOpenStore(test->OpenShared(), "new", kNow + kLeaseDuration);
    refuses(ErrorCode::kStaleTerm, "new leads with term");
  }
  SECTION("by a copy that was restored") {
    REQUIRE(other->Run("UPDATE leases SET batch = 1", {}));
    refuses(ErrorCode::kCorrupt, "not the one this scheduler wrote (2)");
  }
  SECTION("by hand: seen with the next renewal") {
    REQUIRE(other->Run("DELETE FROM leases", {}));
    clock_ns += kLeaseRenewal.nanos();
    refuses(ErrorCode::kStaleTerm, "nobody leads");
  }
}

TEST_CASE("a lease given up is free at once", "[lease]") {
  const auto test = EachDriver();
  auto first = MustOpenStore(test->OpenShared(), "one", kNow);
  REQUIRE(first->Release(kNow));
  const auto second = MustOpenStore(test->OpenShared(), "two", kNow);
  CHECK(second->term() == Term(first->term().value() + 1));
  CHECK(first->Release(kNow));  // not ours any more: no harm
}

Term TermOf(const std::string& path, Instant now) {
  return MustOpenStore(MustOpen(path), "a", now)->term();
}

TEST_CASE("a store that was lost, or restored from a copy, gives no term twice", "[lease]") {
  const TempDir dir;
  const std::string path = dir.File("t.db");
  const Term first = TermOf(path, kNow);
  std::filesystem::copy_file(path, dir.File("copy.db"));
  Term newest;
  for (int64_t hour = 1; hour < 5; ++hour) {
    newest = TermOf(path, kNow + Duration::Minutes(60 * hour));
  }
  CHECK(newest > first);
  const Instant later = kNow + Duration::Minutes(60 * 5);
  CHECK(TermOf(dir.File("copy.db"), later) > newest);
  CHECK(TermOf(dir.File("new.db"), later) > newest);
}

TEST_CASE("terms rise also while the clock stands still or goes back", "[lease]") {
  const auto test = EachDriver();
  const auto term_at = [&](Instant now) { return MustOpenStore(test->Open(), "a", now)->term(); };
  const Term first = term_at(kNow);
  CHECK(term_at(kNow) == Term(first.value() + 1));
  CHECK(term_at(kNow - Duration::Minutes(60)) == Term(first.value() + 2));
}

TEST_CASE("a failed commit leaves nothing and ends the store", "[store]") {
  const TempDir dir;
  auto store = MustOpenStore(MustOpen(dir.File("t.db")), "a", kNow);
  ClusterState state;
  REQUIRE(store->Commit(state, StepOne(state, Join(0), kNow), kNow));
  const std::string before = EncodeState(*store->Load());
  const auto pages = store->database().Run("PRAGMA page_count", {});
  REQUIRE(store->database().RunScript("PRAGMA max_page_count = " +
                                      std::to_string(std::get<int64_t>(pages->rows.at(0).at(0)))));
  JobSubmitted large = Submit(1, 1, 10);
  large.spec.Edit([](JobSpec& spec) { spec.env["LARGE"] = std::string(100'000, 'x'); });
  const Status full = store->Commit(state, StepOne(state, large, kNow), kNow);
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message, Contains("no space left"));
  CHECK(EncodeState(*store->Load()) == before);
  CHECK_FALSE(store->Commit(state, {}, kNow));
}

TEST_CASE("broken rows are named, not loaded", "[store]") {
  const auto test = EachDriver();
  auto store = MustOpenStore(test->Open(), "a", kNow);
  ClusterState state;
  REQUIRE(store->Commit(state, StepOne(state, Join(0), kNow), kNow));
  REQUIRE(store->Commit(state, StepOne(state, Submit(1, 1, 10), kNow), kNow));
  // Foreign keys keep such damage out; one of the two is the driver's word for leaving them off.
  CHECK((store->database().RunScript("PRAGMA foreign_keys = OFF") ||
         store->database().RunScript("SET session_replication_role = replica")));
  const auto [damage, words] = GENERATE(table<std::string, std::string>({
      {"UPDATE jobs SET data = '{'", "jobs 1: not JSON"},
      {"UPDATE jobs SET data = '{\"id\": 2}'", "jobs 1: its id disagrees"},
      {"DELETE FROM jobs", "attempts 1/1: its job is missing"},
      {"DELETE FROM attempts", "tasks 1/1/0: its attempt"},
      {"DELETE FROM tasks", "j-1 holds nodes, but its attempt or tasks are missing"},
      {"DELETE FROM nodes", "j-1 has a task on a node that is missing"},
      {"UPDATE nodes SET id = 3", "nodes 3: node ids have a gap"},
      {"UPDATE attempts SET data = '{\"epoch\": 1, \"released_at\": 5}'",
       "I4: attempt and phase of j-1 disagree"},
  }));
  REQUIRE(store->database().RunScript(damage));
  // Written so, not damaged later.
  REQUIRE(store->database().Begin(kNoHurry));
  REQUIRE(FillSums(store->database()));
  REQUIRE(store->database().Commit());
  const auto loaded = store->Load();
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(loaded.error().message, Contains(words) && Contains("restore it from a backup"));
}

TEST_CASE("a database of a newer program is refused before anything is written", "[store]") {
  const auto test = EachDriver();
  {
    const auto store = MustOpenStore(test->Open(), "a", kNow);
    REQUIRE(store->database().RunScript(
        "INSERT INTO schema_migrations VALUES (999, '0999_future', '2030-01-01')"));
  }
  const auto refused = Store::Open(test->Open(), "a", kNow);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNewerSchema);
  CHECK_THAT(refused.error().message, Contains("newer Tide (schema 999"));
}

}  // namespace
}  // namespace tide
