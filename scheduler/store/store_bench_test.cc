// `store_test "[.bench]"`: commits per second with one job and two events each, and rows per second
// of a load. SQLite's commits are durable, the private PostgreSQL server's are not: what is left is
// the work of both sides.

#include <catch2/catch.hpp>
#include <cstdio>

#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {
namespace {

TEST_CASE("commits per second", "[.bench]") {
  const auto driver = GENERATE(testing::Driver::kSqlite, testing::Driver::kPostgres);
  const auto test = testing::MakeDatabase(driver);
  const Instant now = SystemNow();
  auto store = Store::Open(test->Open(), "bench", now);
  REQUIRE(store);
  ClusterState state;
  const std::vector<Event> join = {{now, testing::Join(0)}};
  REQUIRE((*store)->Commit(state, Step(state, join, Policy(), now), now));
  constexpr int kCommits = 2000;
  int64_t commit_nanos = 0;
  for (int i = 0; i < kCommits; ++i) {
    const JobId id(state.next_job_id);
    const std::vector<Event> events = {{now, testing::Submit(id.value(), 1, 10)},
                                       {now, CancelRequested{id, "ada", ""}}};
    const StepResult step = Step(state, events, Policy(), now);
    const int64_t start = MonotonicNanos();
    REQUIRE((*store)->Commit(state, step, now));
    commit_nanos += MonotonicNanos() - start;
  }
  std::printf("{\"bench\": \"store_commit\", \"driver\": \"%s\", \"commits_per_second\": %.0f}\n",
              driver == testing::Driver::kSqlite ? "sqlite" : "postgres",
              kCommits * 1e9 / static_cast<double>(commit_nanos));
}

TEST_CASE("rows loaded per second", "[.bench]") {
  const auto driver = GENERATE(testing::Driver::kSqlite, testing::Driver::kPostgres);
  const auto test = testing::MakeDatabase(driver);
  const Instant now = SystemNow();
  auto store = Store::Open(test->Open(), "bench", now);
  REQUIRE(store);
  ClusterState state;
  std::vector<Event> events;
  for (uint32_t node = 0; node < 2000; ++node) {
    events.push_back({now, testing::Join(node)});
  }
  for (uint64_t job = 1; job <= 20'000; ++job) {
    events.push_back({now, testing::Submit(job, 1, 10)});
  }
  REQUIRE((*store)->Commit(state, Step(state, events, Policy(), now), now));
  int64_t best_nanos = INT64_MAX;
  for (int i = 0; i < 7; ++i) {
    const int64_t start = MonotonicNanos();
    REQUIRE((*store)->Load());
    best_nanos = std::min(best_nanos, MonotonicNanos() - start);
  }
  const size_t rows = state.nodes.size() + state.jobs.size() + 2 * state.live.size();
  std::printf("{\"bench\": \"store_load\", \"driver\": \"%s\", \"rows_per_second\": %.0f}\n",
              driver == testing::Driver::kSqlite ? "sqlite" : "postgres",
              static_cast<double>(rows) * 1e9 / static_cast<double>(best_nanos));
}

}  // namespace
}  // namespace tide
