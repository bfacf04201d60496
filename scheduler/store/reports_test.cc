// The views that people query (migrations/0002), on both drivers.

#include <catch2/catch.hpp>

#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {
namespace {

using testing::Driver;
using testing::kNow;
using testing::MakeDatabase;
using testing::RandomWorld;

constexpr const char* kRows = R"sql(
INSERT INTO nodes (id, name, node_group, zone, leaf, state, state_since, reason, actor, cpus,
  memory_bytes, gpus, gpu_model, faults, data) VALUES
  (0, 'a-n1', 'g', 'A', 'l1', 'ready', NULL, '', '', 8, 1, 8, 'A100', 0, ''),
  (1, 'a-n2', 'g', 'A', 'l1', 'drained', '2026-01-02T08:00:00.000Z', 'fan', 'ada', 8, 1, 8, 'A100',
   1, '');
INSERT INTO jobs (id, name, user_name, project, node_group, state, priority, nodes, gpus_per_node,
  submitted_at, starts, wait_seconds, run_seconds, suspensions, hardware_restarts,
  failure_restarts, detail, data) VALUES
  (1, 'train', 'ada', 'llm', 'g', 'finished', 5, 2, 8, '2026-01-01T10:00:00.000Z', 2, 60, 0, 0, 0,
   0, '', ''),
  (2, 'eval', 'bob', 'llm', 'g', 'finished', 5, 1, 8, '2026-01-01T11:00:00.000Z', 1, 20, 0, 0, 0, 0,
   '', ''),
  (3, 'late', 'bob', 'vision', 'g', 'queued', 5, 1, 8, '2026-01-01T12:00:00.000Z', 0, NULL, 0, 0, 0,
   0, '', '');
INSERT INTO attempts (job, epoch, start_reason, end_cause, end_detail, nodes, placed_at, released_at,
  run_seconds, gpu_seconds, data) VALUES
  (1, 1, 'first', 'fault', 'Xid 79', 2, '2026-01-01T10:01:00.000Z', '2026-01-01T20:00:00.000Z',
   3600, 57600, ''),
  (1, 2, 'fault', NULL, '', 2, '2026-01-02T00:00:00.000Z', '2026-01-02T01:00:00.000Z', 3600, 57600,
   ''),
  (2, 1, 'first', NULL, '', 1, '2026-01-01T11:00:20.000Z', '2026-01-01T12:00:00.000Z', NULL, 28800,
   '');
INSERT INTO tasks (job, epoch, task, node, state, exit_reason, exit_code, message, data) VALUES
  (1, 1, 0, 0, 'exited', 'stopped', 0, '', ''),
  (1, 1, 1, 1, 'exited', 'failed', 1, 'CUDA error', '');
INSERT INTO incidents (id, node, kind, code, device, meaning, action, job, observed, first_seen_at,
  last_seen_at, data) VALUES
  (1, 1, 'xid', 79, '0000:a1:00', 'fell off the bus', 'drain_now', 1, 3, '2026-01-01T19:59:00.000Z',
   '2026-01-01T19:59:30.000Z', '');
INSERT INTO events (seq, at, at_ns, type, job, node, data) VALUES
  (1, '2026-01-01T10:00:00.000Z', 0, 'job_submitted', 1, NULL, '{}'),
  (2, '2026-01-01T19:59:00.000Z', 0, 'fault_reported', NULL, 1, '{}');
INSERT INTO validations (seq, item, node, request_id, at, validator, verdict, value, unit, evidence,
  seconds) VALUES (2, 0, 1, 'r', '2026-01-02T09:00:00.000Z', 'cpu', 'pass', 2.5, 'GB/s', '', 1);
)sql";

TEST_CASE("the reports say what the tables hold", "[reports]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  auto store = Store::Open(test->Open(), "a", kNow);
  REQUIRE(store);
  Database& db = (*store)->database();
  REQUIRE(db.RunScript(kRows));
  const auto rows = [&](const std::string& sql) {
    const auto found = db.Run(sql, {});
    if (!found) {
      FAIL(found.error().message);
    }
    return found->rows;
  };
  using Rows = std::vector<SqlRow>;
  const SqlValue none;

  CHECK(rows("SELECT day, project, user_name, jobs, attempts, gpu_hours, node_hours "
             "FROM usage_by_day ORDER BY day, user_name") ==
        Rows{{"2026-01-01", "llm", "ada", int64_t{1}, int64_t{1}, 16.0, 2.0},
             {"2026-01-01", "llm", "bob", int64_t{1}, int64_t{1}, 8.0, 0.0},
             {"2026-01-02", "llm", "ada", int64_t{1}, int64_t{1}, 16.0, 2.0}});
  CHECK(rows("SELECT day, project, priority, jobs, mean_wait_seconds, longest_wait_seconds, "
             "mean_nodes FROM waits_by_day") ==
        Rows{{"2026-01-01", "llm", int64_t{5}, int64_t{2}, 40.0, 60.0, 1.5}});
  CHECK(rows("SELECT at, job, epoch, cause, detail, node_name, exit_code, message FROM failures") ==
        Rows{{"2026-01-01T20:00:00.000Z",
              int64_t{1},
              int64_t{1},
              "fault",
              "Xid 79",
              "a-n2",
              int64_t{1},
              "CUDA error"}});
  CHECK(rows("SELECT node_name, node_state, code, observed, job, cleared_at FROM node_incidents") ==
        Rows{{"a-n2", "drained", int64_t{79}, int64_t{3}, int64_t{1}, none}});
  CHECK(rows("SELECT node_name, state, reason, actor, open_incidents FROM nodes_out_of_service") ==
        Rows{{"a-n2", "drained", "fan", "ada", int64_t{1}}});
  CHECK(rows("SELECT seq, type, job_name, node_name FROM history ORDER BY seq") ==
        Rows{{int64_t{1}, "job_submitted", "train", none},
             {int64_t{2}, "fault_reported", none, "a-n2"}});
  CHECK(rows("SELECT node_name, validator, verdict, value FROM validator_history") ==
        Rows{{"a-n2", "cpu", "pass", 2.5}});
}

TEST_CASE("the reports agree with the tables of a busy cluster", "[reports]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  auto store = Store::Open(test->Open(), "a", kNow);
  REQUIRE(store);
  RandomWorld world(3, ClusterState());
  for (int turn = 0; turn < 150; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  Database& db = (*store)->database();
  const auto one = [&](const std::string& sql) {
    const auto found = db.Run(sql, {});
    REQUIRE(found);
    return found->rows.at(0).at(0);
  };
  const auto count = [&](const std::string& what) { return one("SELECT count(*) FROM " + what); };
  CHECK(count("history") == count("events"));
  CHECK(count("node_incidents") == count("incidents"));
  CHECK(count("validator_history") == count("validations"));
  CHECK(one("SELECT CAST(coalesce(sum(attempts), 0) AS BIGINT) FROM usage_by_day") ==
        count("attempts WHERE released_at IS NOT NULL"));
  CHECK(one("SELECT CAST(coalesce(sum(jobs), 0) AS BIGINT) FROM waits_by_day") ==
        count("jobs WHERE starts > 0"));
  CHECK(one("SELECT count(*) FROM (SELECT DISTINCT job, epoch FROM failures) AS f") ==
        count("attempts WHERE end_cause IN ('failed', 'fault', 'time_limit')"));
  CHECK(count("failures") > SqlValue(int64_t{0}));
}

}  // namespace
}  // namespace tide
