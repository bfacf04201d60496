// Connections that break at every moment of a commit: it takes place once, and the store goes on.

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "scheduler/core/lease.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/postgres_database.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/postgres_proxy.h"
#include "scheduler/store/testing/private_postgres.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::Join;
using testing::kNow;
using testing::PostgresProxy;
using testing::PrivatePostgres;
using testing::RandomWorld;
using testing::Submit;

// A store behind a proxy, and a reader beside it.
struct World {
  PrivatePostgres& server = PrivatePostgres::Shared();
  std::string name = server.NewDatabase();
  PostgresProxy proxy{server.folder()};
  int64_t clock_ahead_ns = 0;
  std::atomic<bool> healed = false;  // the commit is over: nothing left to cut
  std::unique_ptr<Store> store = OpenStore();
  std::unique_ptr<Database> reader = Connect(server.Address(name));
  ClusterState state;

  static std::unique_ptr<Database> Connect(const std::string& address) {
    auto opened = OpenPostgres(address);
    if (!opened) {
      FAIL(opened.error().message);
    }
    return std::move(*opened);
  }

  std::unique_ptr<Store> OpenStore() {
    auto opened = Store::Open(
        Connect(proxy.Address(name)), "a", kNow, [this] { return BootNanos() + clock_ahead_ns; });
    if (!opened) {
      FAIL(opened.error().message);
    }
    return std::move(*opened);
  }

  Status Commit(EventBody body) {
    const std::vector<Event> events = {{Instant(), std::move(body)}};
    const StepResult step = Step(state, events, Policy(), kNow);
    REQUIRE_FALSE(step.log.empty());
    return store->Commit(state, step, kNow);
  }

  int64_t Count(const std::string& what) {
    return std::get<int64_t>(reader->Run("SELECT count(*) FROM " + what, {})->rows.at(0).at(0));
  }

  // The store's and the reader's, and what the server still keeps of others.
  int64_t Sessions() { return Count("pg_stat_activity WHERE datname = current_database()"); }

  void RequireStored() {
    const auto loaded = LoadState(*reader);
    if (!loaded) {
      FAIL(loaded.error().message);
    }
    REQUIRE(EncodeState(*loaded) == EncodeState(state));
    CHECK(Count("events") == store->last_seq());
  }
};

void RequireOk(const Status& status) {
  if (!status) {
    FAIL(status.error().message);
  }
}

TEST_CASE("a commit cut short takes place once", "[postgres][doubt]") {
  using Cut = PostgresProxy::Cut;
  const auto cut = GENERATE(Cut::kBeforeCommit, Cut::kAfterCommit, Cut::kLateCommit);
  CAPTURE(static_cast<int>(cut));
  World world;
  RequireOk(world.Commit(Join(0)));
  world.proxy.CutAtCommit(cut);
  RequireOk(world.Commit(Submit(1, 1, 10)));
  CHECK(world.proxy.cuts() == 1);
  world.RequireStored();
  RequireOk(world.Commit(Submit(2, 1, 10)));
  world.RequireStored();
  CHECK(world.store->renewals() == 3);
}

TEST_CASE("an answer lost again and again is looked up each time", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  for (uint64_t job = 1; job < 6; ++job) {
    world.proxy.CutAtCommit(job % 2 == 0 ? PostgresProxy::Cut::kBeforeCommit
                                         : PostgresProxy::Cut::kAfterCommit);
    RequireOk(world.Commit(Submit(job, 1, 10)));
    world.RequireStored();
  }
  CHECK(world.proxy.cuts() == 5);
}

TEST_CASE("cut after any byte, every commit takes place once", "[postgres][doubt]") {
  const uint64_t seed = GENERATE(range(1, 4));
  CAPTURE(seed);
  World world;
  RandomWorld random(seed, ClusterState());
  Prng prng(seed);
  for (int turn = 0; turn < 40; ++turn) {
    CAPTURE(turn);
    const StepResult step = random.Turn();
    world.proxy.CutAfter(static_cast<int64_t>(prng.Below(6000)));
    // The proxy lets the next connection through.
    const auto cuts = world.proxy.cuts();
    std::thread heal([&] {
      for (int i = 0; i < 1000 && world.proxy.cuts() == cuts && !world.healed; ++i) {
        constexpr timespec kPause{0, 1'000'000};
        ::nanosleep(&kPause, nullptr);
      }
      world.proxy.CutAfter(-1);
    });
    const Status written = world.store->Commit(random.state(), step, random.now());
    world.healed = true;
    heal.join();
    world.healed = false;
    RequireOk(written);
    world.state = random.state();
    world.RequireStored();
  }
  CHECK(world.proxy.cuts() > 10);
}

TEST_CASE("a server that restarts is waited for", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  const std::vector<Event> events = {{Instant(), Submit(1, 1, 10)}};
  const StepResult step = Step(world.state, events, Policy(), kNow);
  world.server.Kill();
  Status written;
  std::thread commit([&] { written = world.store->Commit(world.state, step, kNow); });
  world.server.Start();
  commit.join();
  RequireOk(written);
  world.reader = World::Connect(world.server.Address(world.name));
  world.RequireStored();
}

TEST_CASE("a commit that no synchronous standby has got is not acknowledged", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  Database& admin = *world.reader;
  const auto reload = [&](const std::string& setting) {
    REQUIRE(admin.RunScript("ALTER SYSTEM " + setting));
    REQUIRE(admin.RunScript("SELECT pg_reload_conf()"));
  };
  // The process that waits for a standby, but for `not_this`.
  const auto wait_for_waiter = [&](int64_t not_this) {
    for (int i = 0; i < 1000; ++i) {
      const auto found =
          admin.Run("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1",
                    std::vector<SqlValue>{not_this});
      REQUIRE(found);
      if (!found->rows.empty()) {
        return std::get<int64_t>(found->rows[0][0]);
      }
      constexpr timespec kPause{0, 5'000'000};
      ::nanosleep(&kPause, nullptr);
    }
    return int64_t{0};
  };
  const std::vector<Event> events = {{Instant(), Submit(1, 1, 10)}};
  const StepResult step = Step(world.state, events, Policy(), kNow);
  reload("SET synchronous_standby_names = 'ghost'");
  // The server takes note of it a little later: from the first commit that waits.
  std::atomic<bool> in_force = false;
  std::thread probe([&, other = World::Connect(world.server.Address(world.name))] {
    while (!in_force) {
      (void)other->Run("SELECT pg_logical_emit_message(true, 'probe', '')", {});
    }
  });
  const int64_t probing = wait_for_waiter(0);
  in_force = true;
  CHECK(probing != 0);
  CHECK(admin.Run("SELECT pg_cancel_backend($1)", std::vector<SqlValue>{probing}));
  probe.join();
  Status written;
  std::atomic<bool> returned = false;
  std::thread commit([&] {
    written = world.store->Commit(world.state, step, kNow);
    returned = true;
  });
  const int64_t first = wait_for_waiter(probing);
  CHECK(first != 0);
  // PostgreSQL then reports a commit, with a warning that it may not have been replicated.
  CHECK(admin.Run("SELECT pg_cancel_backend($1)", std::vector<SqlValue>{first}));
  const int64_t second = wait_for_waiter(first);
  CHECK(second != 0);  // the look-up waits, too
  CHECK_FALSE(returned);
  reload("RESET synchronous_standby_names");
  commit.join();
  RequireOk(written);
  world.RequireStored();
}

TEST_CASE("a server that stays away ends the store before its lease ends", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  // Most of the lease has passed; one try is left.
  world.clock_ahead_ns = Duration::Seconds(10).nanos();
  world.proxy.SetHanging(true);
  const int64_t began = BootNanos();
  const Status lost = world.Commit(Submit(1, 1, 10));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(lost.error().message, Contains("not known") && Contains("in time"));
  CHECK(BootNanos() - began + world.clock_ahead_ns < kLeaseDuration.nanos());
  world.proxy.SetHanging(false);
  // Memory is ahead of the log: the process has to end.
  CHECK_FALSE(world.store->Commit(world.state, {}, kNow + kLeaseRenewal));
}

TEST_CASE("a batch larger than one try is not given up while it gets on", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  world.server.Run(world.name,
                   "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                   "pg_sleep(0.004); RETURN NEW; END $$; CREATE TRIGGER t BEFORE INSERT ON events "
                   "FOR EACH ROW EXECUTE FUNCTION slow()");
  std::vector<Event> events;
  for (uint64_t job = 1; job <= 1300; ++job) {  // longer than Store waits for an answer
    events.push_back({Instant(), Submit(job, 1, 10)});
  }
  const StepResult step = Step(world.state, events, Policy(), kNow);
  RequireOk(world.store->Commit(world.state, step, kNow));
  world.RequireStored();
  CHECK(world.Sessions() == 2);  // the same as before: nothing was tried again
}

TEST_CASE("a leader keeps others out over the end of its former connection", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  // The server has the former connection until half a second after the next one was made.
  world.proxy.CutAtCommit(PostgresProxy::Cut::kLateCommit);
  RequireOk(world.Commit(Submit(1, 1, 10)));
  for (int i = 0; i < 1000 && world.Sessions() > 2; ++i) {
    constexpr timespec kPause{0, 5'000'000};
    ::nanosleep(&kPause, nullptr);
  }
  REQUIRE(world.Sessions() == 2);
  const auto other = Store::Open(World::Connect(world.server.Address(world.name)), "b", kNow);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::kNotLeader);
}

TEST_CASE("who lost the lease meanwhile does not write", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  auto other = Store::Open(World::Connect(world.server.Address(world.name)),
                           "b",
                           kNow + kLeaseDuration + kLeaseDuration);
  REQUIRE(other);
  world.proxy.CutAtCommit(PostgresProxy::Cut::kBeforeCommit);
  const Status stale = world.Commit(Submit(1, 1, 10));
  REQUIRE_FALSE(stale);
  CHECK(stale.error().code == ErrorCode::kStaleTerm);
  CHECK(world.Count("jobs") == 0);
}

TEST_CASE("a store that went back in time is not written to", "[postgres][doubt]") {
  World world;
  RequireOk(world.Commit(Join(0)));
  RequireOk(world.Commit(Submit(1, 1, 10)));
  // As after a fail-over to a standby that had not got the last batch.
  REQUIRE(world.reader->RunScript("UPDATE leases SET batch = batch - 1"));
  const Status lost = world.Commit(Submit(2, 1, 10));
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(lost.error().message, Contains("standby"));
  CHECK(world.Count("jobs") == 1);
}

}  // namespace
}  // namespace tide
