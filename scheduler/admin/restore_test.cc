#include "scheduler/admin/restore.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "scheduler/admin/testing/filled_store.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"

namespace tide::admin {
namespace {

using Catch::Contains;
using testing::Backup;
using testing::Contents;
using testing::ContentsOf;
using testing::Fill;
using testing::kNow;
using testing::MustRestore;
using testing::TryRestore;
using testing::WithoutLease;
using tide::testing::Driver;
using tide::testing::MakeDatabase;
using tide::testing::TempDir;
using tide::testing::TestDatabase;

constexpr int64_t kNowSeconds = 1'800'000'000;

Driver AnyDriver() {
  return GENERATE(Driver::kSqlite, Driver::kPostgres);
}

// A dump of a small store.
std::string SmallDump(const TempDir& dir) {
  const auto from = MakeDatabase(Driver::kSqlite);
  Fill(*from, 2, 40);
  Backup(*from->OpenShared(), dir.File("backup"));
  return dir.File("backup");
}

TEST_CASE("rows come back as they were, over either database") {
  const TempDir dir;
  const auto seed = GENERATE(1U, 2U, 3U);
  const auto sqlite = MakeDatabase(Driver::kSqlite);
  Fill(*sqlite, seed, 600);
  const Contents contents = ContentsOf(*sqlite->OpenShared());
  for (const auto& [table, rows] : contents) {
    CAPTURE(table);
    CHECK_FALSE(rows.rows.empty());
  }
  Backup(*sqlite->OpenShared(), dir.File("1"));
  const auto postgres = MakeDatabase(Driver::kPostgres)->Open();
  CHECK(MustRestore(*postgres, dir.File("1")).rows.at("jobs") ==
        static_cast<int64_t>(contents.at("jobs").rows.size()));
  CHECK(WithoutLease(ContentsOf(*postgres)) == WithoutLease(contents));
  Backup(*postgres, dir.File("2"));
  const auto back = MakeDatabase(Driver::kSqlite);
  const auto again = back->Open();
  MustRestore(*again, dir.File("2"));
  CHECK(WithoutLease(ContentsOf(*again)) == WithoutLease(contents));
}

TEST_CASE("a scheduler goes on from a restored store") {
  const TempDir dir;
  const auto from = MakeDatabase(AnyDriver());
  Fill(*from, 4, 100);
  const auto state = LoadState(*from->OpenShared());
  REQUIRE(state);
  Backup(*from->OpenShared(), dir.File("backup"));
  const auto to = MakeDatabase(AnyDriver());
  MustRestore(*to->Open(), dir.File("backup"));
  auto store = Store::Open(to->Open(), "next", kNow);
  REQUIRE(store);
  const auto loaded = (*store)->Load();
  REQUIRE(loaded);
  CHECK(EncodeState(*loaded) == EncodeState(*state));
  tide::testing::RandomWorld world(5, *loaded);
  for (int turn = 0; turn < 20; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
}

TEST_CASE("terms and job numbers are never given out again") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const auto to = MakeDatabase(AnyDriver());
  uint64_t next = 0;
  SECTION("above the clock") {
    const auto restored = MustRestore(*to->Open(), dump);
    CHECK(restored.term == kNowSeconds + kTermMargin);
    next = restored.next_job_id;
    CHECK(next > 1);
  }
  SECTION("above what agents have seen") {
    CHECK(MustRestore(*to->Open(), dump, {kNow, 0, 3 * kNowSeconds}).term == 3 * kNowSeconds);
  }
  SECTION("above the dump's") {
    const Instant before = Instant::FromUnixNanos(1);
    CHECK(MustRestore(*to->Open(), dump, {before}).term == kNowSeconds);  // what Fill led with
  }
  SECTION("above the store's own") {
    {
      auto led = Store::Open(to->Open(), "once", kNow + Duration::Minutes(1'000'000));
      REQUIRE(led);
      REQUIRE((*led)->Release(kNow));
    }
    CHECK(MustRestore(*to->Open(), dump).term == kNowSeconds + 60'000'000);
  }
  SECTION("job numbers are left out") {
    const auto restored = MustRestore(*to->Open(), dump, {kNow, 5000});
    next = restored.next_job_id;
    CHECK(next > 5000);
  }
  auto store = Store::Open(to->Open(), "next", kNow + Duration::Seconds(1));
  REQUIRE(store);
  const auto state = (*store)->Load();
  REQUIRE(state);
  CHECK((next == 0 || state->next_job_id == next));
}

TEST_CASE("a store that a scheduler made and nobody used takes a dump") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const auto to = MakeDatabase(AnyDriver());
  Fill(*to, 1, 0);
  const auto database = to->Open();
  MustRestore(*database, dump);
  CHECK(database->Run("SELECT count(*) FROM usage_by_day", {}));
}

TEST_CASE("a store with anything in it is left alone") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const auto to = MakeDatabase(AnyDriver());
  Fill(*to, 9, 3);
  const auto database = to->Open();
  const Contents before = ContentsOf(*database);
  const auto restored = TryRestore(*database, dump);
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == ErrorCode::kAlreadyExists);
  CHECK_THAT(restored.error().message, Contains(database->Name()) && Contains("new file"));
  CHECK(ContentsOf(*database) == before);
}

TEST_CASE("nothing is restored under a scheduler that leads") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const auto to = MakeDatabase(AnyDriver());
  const auto leader = Store::Open(to->Open(), "leader", kNow);
  REQUIRE(leader);
  const auto other = to->OpenShared();
  const Contents before = ContentsOf(*other);
  const auto restored = TryRestore(*other, dump);
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == ErrorCode::kNotLeader);
  CHECK_THAT(restored.error().message, Contains("stop it"));
  CHECK(ContentsOf(*other) == before);
}

TEST_CASE("the lease of a dead scheduler is not waited out") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const auto to = MakeDatabase(AnyDriver());
  REQUIRE(Store::Open(to->Open(), "dies", kNow));  // without Release
  MustRestore(*to->Open(), dump);
}

TEST_CASE("of a dump that is cut off or changed nothing is written") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  const std::string whole = *ReadFile(dump);
  const auto database = MakeDatabase(AnyDriver())->Open();
  const auto refuses = [&](const std::string& text, const char* words) {
    std::ofstream(dump, std::ios::trunc) << text;
    const auto restored = TryRestore(*database, dump);
    REQUIRE_FALSE(restored);
    CHECK(restored.error().code == ErrorCode::kCorrupt);
    CHECK_THAT(restored.error().message, Contains(dump) && Contains(words));
    CHECK(testing::IsUntouched(*database));
  };
  refuses("", "no dump of Tide's");
  refuses("PK\x03\x04", "no dump of Tide's");
  refuses(whole.substr(0, whole.size() / 2), "ends here, without its footer");
  refuses(whole.substr(0, whole.rfind("{\"end")), "ends here, without its footer");
  std::string changed = whole;
  changed[whole.find("ada")] = 'i';  // a sound row with another name
  refuses(changed, "the checksum is");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  refuses(with("\"table\":\"counters\"", "\"table\":\"pg_class\""), "no such table");
  refuses(with("[\"name\",\"value\",", "[\"name\",\"value) --\","), "no such table");
  refuses(with("[\"next_job_id\",", "[\"next_job_id\",1,"), "another width");
  refuses(with("[\"next_job_id\",", "[\"next_job_id\",\"x\",\"y\"],["), "");
}

TEST_CASE("a dump of a newer Tide names the way out") {
  const TempDir dir;
  const std::string dump = SmallDump(dir);
  std::string text = *ReadFile(dump);
  const size_t at = text.find("\"schema\":");
  text.replace(at, text.find(',', at) - at, "\"schema\":99");
  std::ofstream(dump, std::ios::trunc) << text;
  const auto database = MakeDatabase(AnyDriver())->Open();
  const auto restored = TryRestore(*database, dump);
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == ErrorCode::kNewerSchema);
  CHECK_THAT(restored.error().message, Contains("schema 99") && Contains("install that version"));
}

}  // namespace
}  // namespace tide::admin
