#include "scheduler/store/sqlite_database.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::TempDir;

std::unique_ptr<Database> MustOpen(const std::string& path) {
  auto database = OpenSqlite(path);
  REQUIRE(database);
  return std::move(*database);
}

Error OpenError(const std::string& path) {
  const auto database = OpenSqlite(path);
  REQUIRE_FALSE(database);
  INFO(database.error().message);
  CHECK_THAT(database.error().message, Contains(path));
  CHECK(database.error().message.find('\n') == std::string::npos);
  return database.error();
}

TEST_CASE("values come back as they went in, by parameter number", "[sqlite]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT, b DOUBLE PRECISION, c TEXT, d TEXT)"));
  const std::string bytes("x\0y'\xff", 5);
  const std::vector<SqlValue> params = {bytes, int64_t{INT64_MIN}, 0.1, std::monostate{}};
  REQUIRE(db->Run("INSERT INTO t (c, d, a, b) VALUES ($1, $4, $2, $3)", params));
  const auto found = db->Run("SELECT a, b, c, d FROM t", {});
  REQUIRE(found);
  CHECK(found->columns == std::vector<std::string>{"a", "b", "c", "d"});
  REQUIRE(found->rows.size() == 1);
  CHECK(found->rows[0] == SqlRow{int64_t{INT64_MIN}, 0.1, bytes, std::monostate{}});
  CHECK(db->Run("SELECT $1", {}).error().code == ErrorCode::kInternal);
}

TEST_CASE("what is not committed is gone", "[sqlite]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  REQUIRE(db->Begin());
  REQUIRE(db->RunScript("INSERT INTO t VALUES (1)"));
  db->Rollback();
  db->Rollback();  // nothing open: no effect
  REQUIRE(db->Begin());
  REQUIRE(db->RunScript("INSERT INTO t VALUES (2)"));
  REQUIRE(db->Commit());
  CHECK(db->Run("SELECT a FROM t", {})->rows == std::vector<SqlRow>{{int64_t{2}}});
}

TEST_CASE("two schedulers on one file are refused", "[sqlite]") {
  const TempDir dir;
  const std::string path = dir.File("t.db");
  auto first = MustOpen(path);
  const Error error = OpenError(path);
  CHECK(error.code == ErrorCode::kNotLeader);
  CHECK_THAT(error.message, Contains("pid " + std::to_string(::getpid())));
  CHECK(OpenSqlite(path, SqliteAccess::kShared));
  first.reset();
  CHECK(OpenSqlite(path));
}

TEST_CASE("the file is nobody else's to read", "[sqlite]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  CHECK(std::filesystem::status(dir.File("t.db")).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("files that cannot be the database are refused in words", "[sqlite]") {
  const TempDir dir;
  const std::string path = dir.File("t.db");

  SECTION("no database") {
    std::ofstream(path) << std::string(8192, 'x');
    const Error error = OpenError(path);
    CHECK(error.code == ErrorCode::kCorrupt);
    CHECK_THAT(error.message, Contains("is not a database"));
  }
  SECTION("damaged") {
    {
      const auto db = MustOpen(path);
      REQUIRE(
          db->RunScript("CREATE TABLE t (a TEXT); INSERT INTO t VALUES (hex(zeroblob(50000)));"
                        "PRAGMA wal_checkpoint(TRUNCATE)"));
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(4096, '\x5a');
    file.close();
    const Error error = OpenError(path);
    CHECK(error.code == ErrorCode::kCorrupt);
    CHECK_THAT(error.message, Contains("is damaged") && Contains("backup"));
  }
  SECTION("cut off") {
    {
      const auto db = MustOpen(path);
      REQUIRE(
          db->RunScript("CREATE TABLE t (a TEXT); INSERT INTO t VALUES (hex(zeroblob(50000)));"
                        "PRAGMA wal_checkpoint(TRUNCATE)"));
    }
    std::filesystem::resize_file(path, 8192);
    CHECK(OpenError(path).code == ErrorCode::kCorrupt);
  }
  SECTION("another program's") {
    REQUIRE(MustOpen(path)->RunScript("PRAGMA application_id = 7"));
    const Error error = OpenError(path);
    CHECK(error.code == ErrorCode::kConflict);
    CHECK_THAT(error.message, Contains("another program"));
  }
  SECTION("a newer layout") {
    REQUIRE(MustOpen(path)->RunScript("PRAGMA user_version = 99"));
    const Error error = OpenError(path);
    CHECK(error.code == ErrorCode::kConflict);
    CHECK_THAT(error.message, Contains("newer Tide"));
  }
  SECTION("no such folder") {
    const Error error = OpenError(dir.File("missing/t.db"));
    CHECK(error.code == ErrorCode::kStorage);
    CHECK_THAT(error.message, Contains("check that the folder exists"));
  }
  SECTION("a folder") {
    std::filesystem::create_directory(path);
    CHECK(OpenError(path).code == ErrorCode::kStorage);
  }
}

TEST_CASE("a full disk and a read-only file say so", "[sqlite]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  REQUIRE(db->RunScript("CREATE TABLE t (a TEXT)"));
  SECTION("full") {
    REQUIRE(db->RunScript("PRAGMA max_page_count = 4"));
    const auto full = db->RunScript("INSERT INTO t VALUES (hex(zeroblob(100000)))");
    REQUIRE_FALSE(full);
    CHECK(full.error().code == ErrorCode::kStorage);
    CHECK_THAT(full.error().message, Contains("no space left") && Contains(db->Name()));
  }
  SECTION("read-only") {
    REQUIRE(db->RunScript("PRAGMA query_only = ON"));
    const auto refused = db->RunScript("INSERT INTO t VALUES ('x')");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kStorage);
    CHECK_THAT(refused.error().message, Contains("read-only"));
  }
}

constexpr Migration kTwo[] = {
    {1, "0001_first", "CREATE TABLE a (x BIGINT)"},
    {2, "0002_second", "CREATE TABLE b (x BIGINT); INSERT INTO b VALUES (1)"},
};

TEST_CASE("migrations apply once, in order, each whole or not at all", "[migrate]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  const Instant now = Instant::FromUnixNanos(1'750'000'000'000'000'000);
  REQUIRE(Migrate(*db, std::span(kTwo, 1), now));
  REQUIRE(Migrate(*db, kTwo, now));
  REQUIRE(Migrate(*db, kTwo, now));
  CHECK(ReadSchemaVersion(*db, kTwo) == 2);
  CHECK(db->Run("SELECT x FROM b", {})->rows.size() == 1);

  SECTION("a newer schema is refused") {
    const auto refused = Migrate(*db, std::span(kTwo, 1), now);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kConflict);
    CHECK_THAT(refused.error().message, Contains("newer Tide (schema 2, this program knows 1)"));
  }
  SECTION("a failing one leaves nothing") {
    const Migration broken[] = {
        kTwo[0], kTwo[1], {3, "0003_bad", "CREATE TABLE c (x BIGINT); oops"}};
    const auto failed = Migrate(*db, broken, now);
    REQUIRE_FALSE(failed);
    CHECK_THAT(failed.error().message, Contains("migration 0003_bad"));
    CHECK(ReadSchemaVersion(*db, kTwo) == 2);
    CHECK_FALSE(db->Run("SELECT x FROM c", {}));
  }
}

TEST_CASE("the built-in migrations are numbered without gaps", "[migrate]") {
  int expected = 1;
  for (const Migration& migration : BuiltInMigrations()) {
    CHECK(migration.version == expected++);
  }
  CHECK(expected > 1);
}

}  // namespace
}  // namespace tide
