#include "scheduler/store/sqlite_database.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::MustOpen;
using testing::TempDir;

Error OpenError(const std::string& path) {
  const auto database = OpenSqlite(path);
  REQUIRE_FALSE(database);
  INFO(database.error().message);
  CHECK_THAT(database.error().message, Contains(path));
  CHECK(database.error().message.find('\n') == std::string::npos);
  return database.error();
}

TEST_CASE("SQLite keeps any bytes as text", "[sqlite]") {
  const TempDir dir;
  const auto db = MustOpen(dir.File("t.db"));
  REQUIRE(db->RunScript("CREATE TABLE t (a TEXT)"));
  const std::string bytes("x\0y'\xff", 5);
  REQUIRE(db->Run("INSERT INTO t VALUES ($1)", std::vector<SqlValue>{bytes}));
  CHECK(db->Run("SELECT a FROM t", {})->rows == std::vector<SqlRow>{{bytes}});
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

TEST_CASE("a reader creates nothing, and takes the lock when asked to", "[sqlite]") {
  const TempDir dir;
  const std::string path = dir.File("t.db");
  const auto read_error = [&] {
    const auto reader = OpenSqlite(path, SqliteAccess::kReader);
    REQUIRE_FALSE(reader);
    CHECK_THAT(reader.error().message, Contains(path));
    return reader.error().code;
  };
  CHECK(read_error() == ErrorCode::kNotFound);
  CHECK(std::filesystem::is_empty(dir.File("")));
  std::ofstream(path).flush();
  CHECK(read_error() == ErrorCode::kNotFound);
  CHECK(std::filesystem::file_size(path) == 0);
  std::filesystem::remove(path);

  auto scheduler = MustOpen(path);
  REQUIRE(scheduler->RunScript("CREATE TABLE t (a TEXT)"));
  const auto reader = OpenSqlite(path, SqliteAccess::kReader);
  REQUIRE(reader);
  CHECK((*reader)->LockOthersOut(Database::Others::kLeave) == false);
  scheduler.reset();
  CHECK((*reader)->LockOthersOut(Database::Others::kLeave) == true);
  CHECK(OpenError(path).code == ErrorCode::kNotLeader);
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
    CHECK(error.code == ErrorCode::kNewerSchema);
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

}  // namespace
}  // namespace tide
