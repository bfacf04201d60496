// Databases of every released schema load (tests/upgrade).

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "common/base/file.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/random_world.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using testing::RandomWorld;
using testing::TempDir;

const Instant kUpgrade = Instant::FromUnixNanos(1'800'000'000'000'000'000);

std::string Literal(const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return std::to_string(*number);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.17g", *real);
    return text.data();
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    std::string quoted = "'";
    for (const char c : *text) {
      quoted += c == '\'' ? "''" : std::string(1, c);
    }
    return quoted + "'";
  }
  return "NULL";
}

void DumpTable(Database& database, const std::string& table, std::string& out) {
  const auto found = database.Run("SELECT * FROM " + table, {});
  REQUIRE(found);
  for (const SqlRow& row : found->rows) {
    std::string columns;
    std::string values;
    for (size_t i = 0; i < row.size(); ++i) {
      columns += (i == 0 ? "" : ", ") + found->columns[i];
      values += (i == 0 ? "" : ", ") + Literal(row[i]);
    }
    out += "INSERT INTO " + table + " (" + columns + ") VALUES (" + values + ");\n";
  }
}

// `store_test "[.dump]"` writes schema-NNNN.sql into the current folder; done once per release.
TEST_CASE("write a dump of the present schema", "[.dump]") {
  const TempDir dir;
  auto database = OpenSqlite(dir.File("t.db"));
  REQUIRE(database);
  auto store = Store::Open(std::move(*database), "release", kUpgrade);
  REQUIRE(store);
  RandomWorld world(11, ClusterState());
  for (int turn = 0; turn < 60; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  Database& db = (*store)->database();
  std::string out =
      "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL, "
      "applied_at TEXT NOT NULL);\n";
  for (const Migration& migration : BuiltInMigrations()) {
    out += migration.sql;
  }
  for (const char* table : {"schema_migrations",
                            "leases",
                            "counters",
                            "nodes",
                            "jobs",
                            "attempts",
                            "tasks",
                            "incidents",
                            "events",
                            "validations",
                            "archived_jobs",
                            "archived_attempts",
                            "archived_tasks",
                            "archived_events",
                            "archived_use",
                            "archived_runs"}) {
    DumpTable(db, table, out);
  }
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "schema-%04d.sql", BuiltInMigrations().back().version);
  std::ofstream(name.data()) << out;
}

TEST_CASE("a database of schema 1 loads", "[upgrade]") {
  const auto dump = ReadFile(TIDE_UPGRADE_DIR "/schema-0001.sql");
  REQUIRE(dump);
  const auto test =
      testing::MakeDatabase(GENERATE(testing::Driver::kSqlite, testing::Driver::kPostgres));
  auto database = test->Open();
  REQUIRE(database->RunScript(*dump));
  auto store = Store::Open(std::move(database), "upgraded", kUpgrade);
  if (!store) {
    FAIL(store.error().message);
  }
  CHECK((*store)->term() > Term(1));  // the dump's
  const auto state = (*store)->Load();
  if (!state) {
    FAIL(state.error().message);
  }
  CHECK(state->nodes.size() == 6);
  CHECK(state->nodes[2].identity.name == "node-2");
  CHECK_FALSE(state->jobs.empty());
  CHECK(state->jobs.begin()->second.spec->command ==
        std::vector<std::string>{"python3", "train.py"});
  CHECK_FALSE(state->incidents.empty());
  const auto events = LoadEvents((*store)->database(), 0, 1'000'000);
  REQUIRE(events);
  CHECK(static_cast<int64_t>(events->size()) == (*store)->last_seq());

  // And it goes on from there.
  RandomWorld world(5, *state);
  for (int turn = 0; turn < 20; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  CHECK(EncodeState(*(*store)->Load()) == EncodeState(world.state()));
}

}  // namespace
}  // namespace tide
