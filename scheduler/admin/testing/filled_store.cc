#include "scheduler/admin/testing/filled_store.h"

#include <catch2/catch.hpp>

#include "scheduler/admin/dump_tables.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"

namespace tide {

bool operator==(const SqlRows& a, const SqlRows& b) {
  return a.columns == b.columns && a.rows == b.rows;
}

}  // namespace tide

namespace tide::admin::testing {

namespace {

// One of each kind.
void StagePeople(Store& store) {
  User ann;
  ann.number = 1;
  ann.name = "ann";
  ann.created_at = kNow;
  store.Stage(PeopleRecord(ann));
  Project vision;
  vision.number = 1;
  vision.name = "vision";
  vision.members = {{"ann", 30, true}};
  vision.created_at = kNow;
  store.Stage(PeopleRecord(vision));
  Token token;
  token.number = 1;
  token.user = "ann";
  token.sha256 = std::string(64, 'a');
  token.created_at = kNow;
  store.Stage(PeopleRecord(token));
  AuditEntry entry;
  entry.at = kNow;
  entry.user = "ann";
  entry.operation = "jobs.submit";
  entry.outcome = "done";
  store.Stage(entry);
}

}  // namespace

void Fill(tide::testing::TestDatabase& test, uint64_t seed, int turns) {
  auto store = Store::Open(test.Open(), "first", kNow);
  REQUIRE(store);
  Policy policy;
  policy.finished_max = 3;  // so that there is something in the archive
  tide::testing::RandomWorld world(seed, ClusterState(), policy);
  for (int turn = 0; turn < turns; ++turn) {
    const StepResult step = world.Turn();
    REQUIRE((*store)->Commit(world.state(), step, world.now()));
  }
  (*store)->Stage(SecretRow{{"ann", "hf-token"}, "sealed-\x01", kNow});
  StagePeople(**store);
  REQUIRE((*store)->Commit(world.state(), {}, world.now()));
  REQUIRE((*store)->Release(kNow));
}

Contents ContentsOf(Database& database) {
  Contents contents;
  for (const DumpTable& table : DumpTables()) {
    std::string keys;
    for (size_t i = 0; i < table.keys.size() && !table.keys[i].empty(); ++i) {
      keys += (i == 0 ? "" : ", ") + std::string(table.keys[i]);
    }
    auto found = database.Run("SELECT * FROM " + std::string(table.name) + " ORDER BY " + keys, {});
    if (found) {
      contents[std::string(table.name)] = std::move(*found);
    }
  }
  return contents;
}

Contents WithoutLease(Contents contents) {
  contents.erase("leases");
  return contents;
}

void Backup(Database& database, const std::string& path, const DumpOptions& options) {
  auto file = DumpWriter::Create(path);
  REQUIRE(file);
  const auto written = WriteDump(database, **file, options);
  if (!written) {
    FAIL(written.error().message);
  }
}

Result<RestoreSummary> TryRestore(Database& database,
                                  const std::string& path,
                                  const RestoreOptions& options) {
  auto dump = DumpReader::Open(path);
  REQUIRE(dump);
  auto restored = Restore(database, **dump, options);
  if (!restored) {
    INFO(restored.error().message);
    CHECK(restored.error().message.find('\n') == std::string::npos);
  }
  return restored;
}

RestoreSummary MustRestore(Database& database,
                           const std::string& path,
                           const RestoreOptions& options) {
  auto restored = TryRestore(database, path, options);
  if (!restored) {
    FAIL(restored.error().message);
  }
  return *restored;
}

bool IsUntouched(Database& database) {
  const auto version = FindSchemaVersion(database, BuiltInMigrations());
  return !version && version.error().code == ErrorCode::kNotFound;
}

}  // namespace tide::admin::testing
