// kill -9 at any instant: what was acknowledged is there afterwards.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/file.h"
#include "scheduler/store/archive.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {
namespace {

using testing::Driver;
using testing::kNow;
using testing::MakeDatabase;
using testing::TestDatabase;

constexpr int kKills = 20;
// Commits one job after another, each of which ends at once, archives most of them, and writes the
// id of each to `out` once it is acknowledged.
// Runs in a child process, which is killed; returns only on an error.
void SubmitForever(TestDatabase& test, int out) {
  auto store = Store::Open(test.Open(), "a", kNow);
  if (!store) {
    return;
  }
  auto state = (*store)->Load();
  if (!state) {
    return;
  }
  Policy policy;
  policy.finished_max = 8;
  while (true) {
    const uint64_t id = state->next_job_id;
    std::vector<Event> events;
    if (state->nodes.empty()) {
      events.push_back({Instant(), testing::Join(0)});
    }
    events.push_back({Instant(), testing::Submit(id, 1, 10)});
    events.push_back({Instant(), CancelRequested{JobId(id), "ada", ""}});
    const StepResult step = Step(*state, events, policy, kNow);
    if (!(*store)->Commit(*state, step, kNow)) {
      return;
    }
    std::array<char, sizeof(id)> bytes{};
    std::memcpy(bytes.data(), &id, sizeof(id));
    if (!WriteAll(out, {bytes.data(), bytes.size()})) {
      return;
    }
  }
}

// Reads ids up to the end of the pipe; kills `child` after the first `kill_after`.
std::set<uint64_t> ReadAcknowledged(int in, pid_t child, uint64_t kill_after) {
  std::set<uint64_t> ids;
  uint64_t id = 0;
  size_t have = 0;
  std::array<char, sizeof(id)> bytes{};
  while (true) {
    const ssize_t n = ::read(in, bytes.data() + have, bytes.size() - have);
    if (n <= 0) {
      return ids;
    }
    have += static_cast<size_t>(n);
    if (have == bytes.size()) {
      std::memcpy(&id, bytes.data(), sizeof(id));
      ids.insert(id);
      have = 0;
      if (ids.size() == kill_after) {
        ::kill(child, SIGKILL);
      }
    }
  }
}

TEST_CASE("kill -9 loses nothing acknowledged", "[store][crash]") {
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  Prng prng(7);
  std::set<uint64_t> acknowledged;
  Term newest;
  for (int round = 0; round < kKills; ++round) {
    CAPTURE(round);
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      SubmitForever(*test, ends[1]);
      ::_exit(1);
    }
    const Fd in(ends[0]);
    ::close(ends[1]);
    const uint64_t kill_after = prng.Below(20) + 1;
    const std::set<uint64_t> ids = ReadAcknowledged(in.get(), child, kill_after);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // it never ended by itself: no error was met
    REQUIRE(ids.size() >= kill_after);
    acknowledged.insert(ids.begin(), ids.end());

    // The lock went with its holder, the lease is given again to its name: a new scheduler leads at
    // once, behind whatever the server still does for the dead one.
    auto store = Store::Open(test->Open(), "a", kNow);
    REQUIRE(store);
    CHECK((*store)->term() >= Term(newest.value() + 2));  // the child had one between
    newest = (*store)->term();
    const auto state = (*store)->Load();
    REQUIRE(state);
    for (const uint64_t id : acknowledged) {
      // Archived, or not yet.
      REQUIRE(LoadArchivedJob((*store)->database(), JobId(id)).has_value() ==
              (state->FindJob(JobId(id)) == nullptr));
    }
    const auto archived = (*store)->database().Run("SELECT count(*) FROM archived_jobs", {});
    REQUIRE(archived);
    CHECK(state->next_job_id > *acknowledged.rbegin());
    CHECK(std::cmp_equal(state->next_job_id,
                         std::get<int64_t>(archived->rows.at(0).at(0)) +
                             static_cast<int64_t>(state->jobs.size()) + 1));
  }
}

}  // namespace
}  // namespace tide
