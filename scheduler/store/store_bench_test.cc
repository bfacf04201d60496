// `store_test "[.bench]"`: durable commits per second with one job and two events each.

#include <catch2/catch.hpp>
#include <cstdio>

#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

TEST_CASE("commits per second", "[.bench]") {
  const testing::TempDir dir;
  auto database = OpenSqlite(dir.File("t.db"));
  REQUIRE(database);
  const Instant now = SystemNow();
  auto store = Store::Open(std::move(*database), "bench", now);
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
  std::printf("{\"bench\": \"store_commit\", \"commits_per_second\": %.0f}\n",
              kCommits * 1e9 / static_cast<double>(commit_nanos));
}

}  // namespace
}  // namespace tide
