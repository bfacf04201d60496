// Dumps of every released schema load, for ever (tests/upgrade).

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

#include "scheduler/admin/testing/filled_store.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"

namespace tide::admin {
namespace {

using testing::kNow;
using tide::testing::Driver;
using tide::testing::MakeDatabase;

constexpr int kReleased = 2;

std::string DumpName(int schema) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "schema-%04d.dump", schema);
  return name.data();
}

// `admin_test "[.dump]"` writes schema-NNNN.dump into the current folder; done once per release.
TEST_CASE("write a dump of the present schema", "[.dump]") {
  const auto test = MakeDatabase(Driver::kSqlite);
  testing::Fill(*test, 11, 40);
  testing::Backup(*test->OpenShared(),
                  DumpName(BuiltInMigrations().back().version),
                  {DumpKind::kBackup, false, kNow, "release"});
}

TEST_CASE("a dump of each schema loads", "[upgrade]") {
  const int schema = GENERATE(range(1, BuiltInMigrations().back().version + 1));
  CAPTURE(schema);
  const std::string dump = std::string(TIDE_UPGRADE_DIR "/") + DumpName(schema);
  if (schema > kReleased && !std::filesystem::exists(dump)) {
    return;  // not released yet
  }
  const auto test = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto restored = testing::MustRestore(*test->Open(), dump);
  CHECK(restored.header.schema == schema);
  CHECK(restored.schema == BuiltInMigrations().back().version);
  auto store = Store::Open(test->Open(), "upgraded", kNow);
  if (!store) {
    FAIL(store.error().message);
  }
  const auto state = (*store)->Load();
  REQUIRE(state);
  CHECK(state->nodes.size() == 6);
  CHECK(state->nodes[2].identity.name == "node-2");
  REQUIRE_FALSE(state->jobs.empty());
  CHECK(state->jobs.begin()->second.spec->command ==
        std::vector<std::string>{"python3", "train.py"});
  const auto events = LoadEvents((*store)->database(), 0, 1'000'000);
  REQUIRE(events);
  CHECK(static_cast<int64_t>(events->size()) == (*store)->last_seq());
  CHECK(restored.rows.at("events") == (*store)->last_seq());

  // And it goes on from there.
  tide::testing::RandomWorld world(5, *state);
  for (int turn = 0; turn < 20; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  CHECK(EncodeState(*(*store)->Load()) == EncodeState(world.state()));
}

}  // namespace
}  // namespace tide::admin
