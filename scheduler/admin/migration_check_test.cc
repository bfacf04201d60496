#include "scheduler/admin/migration_check.h"

#include <catch2/catch.hpp>

#include "common/base/file.h"
#include "scheduler/admin/testing/filled_store.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/store.h"

namespace tide::admin {
namespace {

using Catch::Contains;
using testing::ContentsOf;
using testing::Fill;
using testing::kNow;
using tide::testing::Driver;
using tide::testing::MakeDatabase;
using tide::testing::TestDatabase;

std::unique_ptr<TestDatabase> EachDriver() {
  return MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
}

const int kKnown = BuiltInMigrations().back().version;

void LoadSchema1(Database& database) {
  const auto dump = ReadFile(TIDE_UPGRADE_DIR "/schema-0001.sql");
  REQUIRE(dump);
  REQUIRE(database.RunScript(*dump));
}

TEST_CASE("nothing is pending for a store of this version, also while it is led") {
  const auto test = EachDriver();
  Fill(*test, 1, 60);
  const auto leader = Store::Open(test->Open(), "leader", kNow);
  REQUIRE(leader);
  const auto check = CheckMigration(*test->OpenShared(), kNow);
  REQUIRE(check);
  CHECK(check->schema == kKnown);
  CHECK(check->known == kKnown);
  CHECK(check->pending.empty());
  CHECK(check->untried.empty());
  CHECK(check->nodes == 6);
  CHECK(check->jobs > 0);
}

TEST_CASE("the migrations of an older store are tried, and leave nothing behind") {
  const auto test = EachDriver();
  const auto database = test->Open();
  LoadSchema1(*database);
  const auto before = ContentsOf(*database);
  const auto check = CheckMigration(*database, kNow);
  REQUIRE(check);
  CHECK(check->schema == 1);
  CHECK(static_cast<int>(check->pending.size()) == kKnown - 1);
  CHECK(check->pending.front() == "0002_batches_reports");
  CHECK(check->untried.empty());
  CHECK(check->nodes == 6);
  CHECK(ContentsOf(*database) == before);
  CHECK_FALSE(database->Run("SELECT batch FROM leases", {}));
}

TEST_CASE("a migration that cannot run says so beforehand") {
  const auto test = EachDriver();
  const auto database = test->Open();
  LoadSchema1(*database);
  REQUIRE(database->RunScript("CREATE TABLE history (a BIGINT)"));  // a view's name
  const auto check = CheckMigration(*database, kNow);
  REQUIRE_FALSE(check);
  CHECK_THAT(check.error().message, Contains("0002_batches_reports") && Contains("history"));
}

TEST_CASE("a scheduler in force is not held up by a try") {
  const auto test = EachDriver();
  const auto leader = test->Open();
  LoadSchema1(*leader);
  REQUIRE(*leader->LockOthersOut(Database::Others::kLeave));
  const auto check = CheckMigration(*test->OpenShared(), kNow);
  REQUIRE(check);
  CHECK(check->schema == 1);
  CHECK_THAT(check->untried, Contains("a scheduler is connected"));
}

TEST_CASE("an empty database gets nothing by being asked") {
  const auto test = EachDriver();
  const auto database = test->Open();
  const auto check = CheckMigration(*database, kNow);
  REQUIRE(check);
  CHECK(check->schema == 0);
  CHECK(static_cast<int>(check->pending.size()) == kKnown);
  CHECK(testing::IsUntouched(*database));
}

TEST_CASE("a newer store and a damaged one are told as a start would") {
  const auto test = EachDriver();
  Fill(*test, 1, 60);
  const auto database = test->Open();
  SECTION("newer") {
    REQUIRE(database->Run("INSERT INTO schema_migrations VALUES (99, 'later', '')", {}));
    CHECK(CheckMigration(*database, kNow).error().code == ErrorCode::kNewerSchema);
  }
  SECTION("damaged") {
    REQUIRE(database->RunScript("UPDATE nodes SET data = '{' WHERE id = 3"));
    const auto check = CheckMigration(*database, kNow);
    REQUIRE_FALSE(check);
    CHECK(check.error().code == ErrorCode::kCorrupt);
    CHECK_THAT(check.error().message, Contains("nodes 3: its checksum is wrong"));
  }
  SECTION("damaged where no scheduler looks at its start") {
    REQUIRE(
        database->RunScript("INSERT INTO archived_attempts (job, epoch, start_reason, "
                            "end_detail, nodes, data) VALUES (1, 2, '', '', 1, '{}')"));
    const auto check = CheckMigration(*database, kNow);
    REQUIRE_FALSE(check);
    CHECK_THAT(check.error().message, Contains("archived_attempts 1/2: its checksum is wrong"));
  }
}

}  // namespace
}  // namespace tide::admin
