#include "scheduler/store/secrets.h"

#include <catch2/catch.hpp>

#include "scheduler/store/store.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/testing/databases.h"

namespace tide {
namespace {

using testing::Driver;
using testing::kNow;
using testing::MakeDatabase;
using testing::MustOpenStore;

std::vector<SecretRow> MustLoad(Database& database) {
  auto rows = LoadSecrets(database);
  REQUIRE(rows);
  return *std::move(rows);
}

TEST_CASE("secrets are written with a step and loaded by the next leader", "[store][secrets]") {
  const auto files = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  {
    const auto store = MustOpenStore(files->Open(), "a", kNow);
    store->Stage(SecretRow{{"ann", "b"}, "sealed \xff\x01", kNow});
    store->Stage(SecretRow{{"ann", "a"}, "one", kNow});
    store->Stage(SecretRow{{"bob", "a"}, "two", kNow});
    CHECK(MustLoad(*files->OpenShared()).empty());
    REQUIRE(store->Commit({}, {}, kNow));  // a step in which nothing else happens
    CHECK(MustLoad(store->database()).size() == 3);
    store->Stage(SecretRow{{"ann", "a"}, "changed", kNow + Duration::Seconds(1)});
    store->Stage(SecretRow{{"bob", "a"}, "", kNow});
    REQUIRE(store->Commit({}, {}, kNow));
    REQUIRE(store->Release(kNow));
  }
  const auto next = MustOpenStore(files->Open(), "a", kNow + Duration::Seconds(2));
  const std::vector<SecretRow> rows = MustLoad(next->database());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].id == SecretId{"ann", "a"});
  CHECK(rows[0].sealed == "changed");
  CHECK(rows[0].changed_at == kNow + Duration::Seconds(1));
  CHECK(rows[1].id == SecretId{"ann", "b"});
  CHECK(rows[1].sealed == "sealed \xff\x01");
}

TEST_CASE("a scheduler that was deposed writes no secret", "[store][secrets]") {
  const auto files = MakeDatabase(Driver::kPostgres);
  const auto deposed = MustOpenStore(files->Open(), "a", kNow);
  const auto leader = MustOpenStore(files->Open(), "a", kNow + Duration::Minutes(5));
  deposed->Stage(SecretRow{{"ann", "a"}, "late", kNow});
  CHECK_FALSE(deposed->Commit({}, {}, kNow));
  CHECK(MustLoad(leader->database()).empty());
}

TEST_CASE("a damaged row is named", "[store][secrets]") {
  const auto files = MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
  const auto store = MustOpenStore(files->Open(), "a", kNow);
  REQUIRE(store->database().Begin(kNoHurry));
  REQUIRE(WriteRow(
      store->database(), Tables().secrets, {"ann", "a", "no hex", "2026-01-31T12:00:00Z"}));
  REQUIRE(store->database().Commit());
  const auto rows = LoadSecrets(store->database());
  REQUIRE_FALSE(rows);
  CHECK(rows.error().code == ErrorCode::kCorrupt);
  CHECK_THAT(rows.error().message, Catch::Contains("secret a of ann is damaged"));
}

}  // namespace
}  // namespace tide
