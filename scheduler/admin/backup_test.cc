#include "scheduler/admin/backup.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "scheduler/admin/dump_tables.h"
#include "scheduler/admin/testing/filled_store.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"

namespace tide::admin {
namespace {

using Catch::Contains;
using testing::kNow;
using tide::testing::Driver;
using tide::testing::MakeDatabase;
using tide::testing::TempDir;

TEST_CASE("each table of the migrations is in a dump, after those it refers to") {
  std::vector<std::string> dumped;
  for (const DumpTable& table : DumpTables()) {
    dumped.emplace_back(table.name);
  }
  std::vector<std::string> made = NamesCreated(BuiltInMigrations(), "CREATE TABLE ");
  made.insert(made.begin(), "schema_migrations");
  CHECK(dumped == made);
  const auto views = NamesCreated(BuiltInMigrations(), "CREATE VIEW ");
  CHECK(views.size() == 11);  // four of the seven were made anew
  CHECK(views.front() == "usage_by_day");
}

TEST_CASE("a backup while a scheduler commits is of one moment") {
  const TempDir dir;
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  auto store = Store::Open(test->Open(), "leader", kNow);
  REQUIRE(store);
  tide::testing::RandomWorld world(3, ClusterState());
  std::map<int64_t, std::string> states;  // the state when this was the newest event
  const auto turn = [&] {
    const StepResult step = world.Turn();
    const bool written = (*store)->Commit(world.state(), step, world.now()).has_value();
    states[(*store)->last_seq()] = EncodeState(world.state());
    return written;
  };
  for (int i = 0; i < 400; ++i) {  // several pages
    REQUIRE(turn());
  }
  std::atomic<bool> stop = false;
  std::atomic<int> commits = 0;
  std::thread writer([&] {
    while (!stop && turn()) {
      ++commits;
    }
  });
  const auto reader = test->OpenShared();
  int overlapped = 0;
  for (int i = 0; i < 8; ++i) {
    const int before = commits;
    testing::Backup(*reader, dir.File(std::to_string(i)));
    overlapped += commits > before ? 1 : 0;
  }
  stop = true;
  writer.join();
  CHECK(overlapped > 0);
  for (int i = 0; i < 8; ++i) {
    const auto copy = MakeDatabase(Driver::kSqlite)->Open();
    testing::MustRestore(*copy, dir.File(std::to_string(i)));
    const auto last = copy->Run("SELECT coalesce(max(seq), 0) FROM events", {});
    REQUIRE(last);
    const auto loaded = LoadState(*copy);
    REQUIRE(loaded);
    CHECK(EncodeState(*loaded) == states.at(std::get<int64_t>(last->rows[0][0])));
  }
}

TEST_CASE("a database that no scheduler has used has nothing to back up") {
  const TempDir dir;
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto database = test->Open();
  auto file = DumpWriter::Create(dir.File("backup"));
  REQUIRE(file);
  const auto written = WriteDump(*database, **file, {});
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ErrorCode::kNotFound);
  CHECK_THAT(written.error().message, Contains(database->Name()) && Contains("--store"));
  CHECK(testing::IsUntouched(*database));
}

TEST_CASE("a store of a newer Tide is not backed up by half") {
  const TempDir dir;
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  testing::Fill(*test, 1, 5);
  const auto database = test->Open();
  REQUIRE(database->Run("INSERT INTO schema_migrations VALUES (99, 'later', '')", {}));
  auto file = DumpWriter::Create(dir.File("backup"));
  REQUIRE(file);
  CHECK(WriteDump(*database, **file, {}).error().code == ErrorCode::kNewerSchema);
}

}  // namespace
}  // namespace tide::admin
