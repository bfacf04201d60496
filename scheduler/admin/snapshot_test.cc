// The dump for bug reports: what it does not say, and that it loads.

#include <catch2/catch.hpp>

#include "scheduler/admin/testing/filled_store.h"
#include "scheduler/store/load.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/random_world.h"

namespace tide::admin {
namespace {

using Catch::Contains;
using testing::Backup;
using testing::Fill;
using testing::kNow;
using testing::TryRestore;
using tide::testing::Driver;
using tide::testing::MakeDatabase;
using tide::testing::TempDir;

DumpOptions Snapshot(bool with_commands) {
  return {DumpKind::kSnapshot, with_commands, kNow, "1.0.0"};
}

TEST_CASE("a snapshot says nothing of environments and commands, and loads") {
  const TempDir dir;
  const auto from = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  Fill(*from, 6, 150);
  const auto reader = from->OpenShared();
  const auto state = LoadState(*reader);
  REQUIRE(state);
  const std::string path = dir.File("snapshot");
  Backup(*reader, path, Snapshot(false));
  const std::string text = *ReadFile(path);
  CHECK_THAT(text, Contains("\\\"KEY\\\"") && Contains("train-"));
  for (const char* secret : {"train.py",
                             "python3",
                             "a=\\",
                             "key-1",
                             "\"events\"",
                             "\"validations\"",
                             "\"secrets\",",
                             "hf-token"}) {
    CHECK_THAT(text, !Contains(secret));
  }

  const auto database = MakeDatabase(Driver::kSqlite)->Open();
  const auto refused = TryRestore(*database, path);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK_THAT(refused.error().message, Contains("--snapshot"));
  testing::MustRestore(*database, path, {kNow, 0, 0, true});
  const auto loaded = LoadState(*database);
  REQUIRE(loaded);
  CHECK(loaded->nodes == state->nodes);
  CHECK(loaded->incidents == state->incidents);
  REQUIRE(loaded->jobs.size() == state->jobs.size());
  for (const auto& [id, job] : state->jobs) {
    Job known = job;
    known.idempotency_key.clear();
    known.spec.Edit([](JobSpec& spec) {
      spec.command = {"(left out)"};
      for (auto& [name, value] : spec.env) {
        value = "(left out)";
      }
    });
    CHECK(loaded->jobs.at(id) == known);
  }
}

TEST_CASE("a snapshot may have the commands") {
  const TempDir dir;
  const auto from = MakeDatabase(Driver::kSqlite);
  Fill(*from, 6, 60);
  Backup(*from->OpenShared(), dir.File("snapshot"), Snapshot(true));
  const std::string text = *ReadFile(dir.File("snapshot"));
  CHECK_THAT(text, Contains("train.py") && !Contains("a=\\"));
}

TEST_CASE("a row that cannot be read is named, not shown") {
  const TempDir dir;
  const auto from = MakeDatabase(Driver::kSqlite);
  Fill(*from, 6, 60);
  const auto database = from->OpenShared();
  REQUIRE(database->RunScript("UPDATE jobs SET data = 'python3 train.py' WHERE id = 1"));
  Backup(*database, dir.File("snapshot"), Snapshot(false));
  const std::string text = *ReadFile(dir.File("snapshot"));
  CHECK_THAT(text, Contains("(left out): not JSON") && !Contains("train.py"));
}

TEST_CASE("a damaged row is as damaged in a snapshot, and goes into no backup") {
  const TempDir dir;
  const auto from = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  Fill(*from, 6, 60);
  const auto database = from->OpenShared();
  const std::string damage = GENERATE("UPDATE jobs SET data = data || ' ' WHERE id = 1",
                                      "UPDATE tokens SET scopes = 'jobs'");
  REQUIRE(database->RunScript(damage));
  auto file = DumpWriter::Create(dir.File("backup"));
  REQUIRE(file);
  const auto written = WriteDump(*database, **file, {DumpKind::kBackup, false, kNow, "test"});
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(written.error().message,
             Contains(" 1: its checksum is wrong") && Contains(database->Name()));
  if (!damage.starts_with("UPDATE jobs")) {
    return;  // a snapshot has no people
  }
  Backup(*database, dir.File("snapshot"), Snapshot(false));
  const auto copy = MakeDatabase(Driver::kSqlite)->Open();
  const auto restored = TryRestore(*copy, dir.File("snapshot"), {kNow, 0, 0, true});
  REQUIRE_FALSE(restored);
  CHECK(restored.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(restored.error().message, Contains("jobs 1: its checksum is wrong"));
}

}  // namespace
}  // namespace tide::admin
