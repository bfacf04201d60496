// What holds for every driver.

#include "scheduler/store/database.h"

#include <catch2/catch.hpp>
#include <limits>

#include "scheduler/store/migrate.h"
#include "scheduler/store/testing/databases.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::EachDriver;

TEST_CASE("values come back as they went in, by parameter number", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT, b DOUBLE PRECISION, c TEXT, d TEXT)"));
  const std::string text = "it's \\ \"quoted\", $1; \xc3\xa9\n\xf0\x9f\x8c\x8a --";
  const std::vector<SqlValue> params = {text, int64_t{INT64_MIN}, 0.1, std::monostate{}};
  REQUIRE(db->Run("INSERT INTO t (c, d, a, b) VALUES ($1, $4, $2, $3)", params));
  const auto found = db->Run("SELECT a, b, c, d FROM t", {});
  REQUIRE(found);
  CHECK(found->columns == std::vector<std::string>{"a", "b", "c", "d"});
  REQUIRE(found->rows.size() == 1);
  CHECK(found->rows[0] == SqlRow{int64_t{INT64_MIN}, 0.1, text, std::monostate{}});
}

TEST_CASE("a missing table is told from other failures", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  CHECK(db->Run("SELECT a FROM nowhere", {}).error().code == ErrorCode::kNotFound);
  CHECK(db->Run("SELECT FROM WHERE", {}).error().code == ErrorCode::kStorage);
}

TEST_CASE("a statement that is run again shows columns that a table got meanwhile", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)"));
  REQUIRE(db->Begin(kNoHurry));
  CHECK(db->Run("SELECT * FROM t", {})->columns == std::vector<std::string>{"a"});
  REQUIRE(db->RunScript("ALTER TABLE t ADD COLUMN b BIGINT NOT NULL DEFAULT 7"));
  const auto found = db->Run("SELECT * FROM t", {});
  REQUIRE(found);
  CHECK(found->columns == std::vector<std::string>{"a", "b"});
  CHECK(found->rows == std::vector<SqlRow>{{int64_t{1}, int64_t{7}}});
  REQUIRE(db->Commit());
}

TEST_CASE("a reading transaction sees one state, and holds no writer up", "[database]") {
  const auto test = EachDriver();
  const auto writer = test->Open();
  REQUIRE(writer->RunScript("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)"));
  const auto reader = test->OpenShared();
  const auto sum = [&] { return reader->Run("SELECT CAST(sum(a) AS BIGINT) FROM t", {})->rows; };
  REQUIRE(reader->Begin(kNoHurry, TransactionKind::kRead));
  CHECK(sum() == std::vector<SqlRow>{{int64_t{1}}});
  REQUIRE(writer->Begin(Duration::Seconds(5)));
  REQUIRE(writer->Run("INSERT INTO t VALUES (2)", {}));
  REQUIRE(writer->Commit());
  CHECK(sum() == std::vector<SqlRow>{{int64_t{1}}});
  reader->Rollback();
  CHECK(sum() == std::vector<SqlRow>{{int64_t{3}}});
}

TEST_CASE("a bulk transaction commits and rolls back as others do", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->Begin(kNoHurry, TransactionKind::kBulk));
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  db->Rollback();
  CHECK_FALSE(db->Run("SELECT a FROM t", {}));
  REQUIRE(db->Begin(kNoHurry, TransactionKind::kBulk));
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  REQUIRE(db->Commit());
  CHECK(db->Run("SELECT a FROM t", {}));
}

TEST_CASE("numbers are exact", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT, b DOUBLE PRECISION)"));
  using Limits = std::numeric_limits<double>;
  const std::vector<double> reals = {0.1 + 0.2,
                                     Limits::max(),
                                     Limits::min(),
                                     Limits::denorm_min(),
                                     -1.0 / 3,
                                     1e21,
                                     Limits::infinity(),
                                     0};
  for (const double real : reals) {
    const std::vector<SqlValue> params = {int64_t{INT64_MAX}, real};
    CAPTURE(real);
    REQUIRE(db->Run("INSERT INTO t VALUES ($1, $2)", params));
    CHECK(db->Run("SELECT a, b FROM t WHERE b = $1", std::vector<SqlValue>{real})->rows ==
          std::vector<SqlRow>{{int64_t{INT64_MAX}, real}});
  }
  CHECK(db->Run("SELECT count(*) FROM t", {})->rows.at(0).at(0) ==
        SqlValue(static_cast<int64_t>(reals.size())));
}

TEST_CASE("a statement is refused the wrong number of parameters", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  CHECK(db->Run("INSERT INTO t VALUES ($1)", {}).error().code == ErrorCode::kInternal);
  const std::vector<SqlValue> two = {int64_t{1}, int64_t{2}};
  CHECK(db->Run("INSERT INTO t VALUES ($1)", two).error().code == ErrorCode::kInternal);
  CHECK(db->Run("INSERT INTO t VALUES ($1)", std::vector<SqlValue>{int64_t{1}}));
}

TEST_CASE("what is not committed is gone", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  const auto other = test->OpenShared();
  const auto all = [&] { return other->Run("SELECT a FROM t ORDER BY a", {})->rows; };
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->RunScript("INSERT INTO t VALUES (1)"));
  REQUIRE(db->Queue("INSERT INTO t VALUES (3)", {}));
  CHECK(all().empty());
  db->Rollback();
  db->Rollback();  // nothing open: no effect
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->RunScript("INSERT INTO t VALUES (2)"));
  REQUIRE(db->Commit());
  CHECK(all() == std::vector<SqlRow>{{int64_t{2}}});
}

TEST_CASE("queued statements run in order, before what follows", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT, b TEXT)"));
  constexpr int64_t kMany = 3000;  // more than wait for their answers at once
  const std::string large(10'000, 'x');
  REQUIRE(db->Begin(kNoHurry));
  for (int64_t i = 0; i < kMany; ++i) {
    REQUIRE(db->Queue("INSERT INTO t VALUES ($1, $2)",
                      std::vector<SqlValue>{i, i % 100 == 0 ? large : "x"}));
  }
  REQUIRE(db->Queue("UPDATE t SET a = a + 1", {}));
  const auto sum = db->Run("SELECT CAST(sum(a) AS BIGINT), count(*) FROM t", {});
  REQUIRE(sum);
  CHECK(sum->rows.at(0) == SqlRow{kMany * (kMany + 1) / 2, kMany});
  REQUIRE(db->Queue("DELETE FROM t WHERE a > 1", {}));
  REQUIRE(db->Commit());
  CHECK(db->Run("SELECT b FROM t", {})->rows == std::vector<SqlRow>{{large}});
}

TEST_CASE("a failed statement fails the transaction, at the latest at its end", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT PRIMARY KEY)"));
  const std::vector<SqlValue> one = {int64_t{1}};
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->Queue("INSERT INTO t VALUES ($1)", one));
  Status status = db->Queue("INSERT INTO t VALUES ($1)", one);
  if (status) {
    status = db->Queue("INSERT INTO t VALUES (7)", {});
  }
  if (status) {
    status = db->Commit();
  }
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kStorage);
  CHECK_THAT(status.error().message, Contains(db->Name()));
  CHECK(status.error().message.find('\n') == std::string::npos);
  db->Rollback();
  CHECK(db->Run("SELECT a FROM t", {})->rows.empty());
  // The connection is as good as before, and its statements are.
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->Queue("INSERT INTO t VALUES ($1)", one));
  REQUIRE(db->Commit());
  CHECK(db->Run("SELECT a FROM t", {})->rows.size() == 1);
}

TEST_CASE("nonsense is an error, and what follows works", "[database]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  CHECK_FALSE(db->Run("SELECT oops FROM nowhere", {}));
  CHECK_FALSE(db->Run("SELECT oops FROM nowhere", {}));
  CHECK_FALSE(db->RunScript("CREATE TABLE t (a BIGINT); oops"));
  CHECK(db->Run("SELECT CAST(1 AS BIGINT)", {}));
}

constexpr Migration kTwo[] = {
    {1, "0001_first", "CREATE TABLE a (x BIGINT)"},
    {2, "0002_second", "CREATE TABLE b (x BIGINT); INSERT INTO b VALUES (1)"},
};

TEST_CASE("migrations apply once, in order, each whole or not at all", "[migrate]") {
  const auto test = EachDriver();
  const auto db = test->Open();
  const Instant now = Instant::FromUnixNanos(1'750'000'000'000'000'000);
  REQUIRE(Migrate(*db, std::span(kTwo, 1), now));
  REQUIRE(Migrate(*db, kTwo, now));
  REQUIRE(Migrate(*db, kTwo, now));
  CHECK(ReadSchemaVersion(*db, kTwo) == 2);
  CHECK(db->Run("SELECT x FROM b", {})->rows.size() == 1);

  SECTION("a newer schema is refused") {
    const auto refused = Migrate(*db, std::span(kTwo, 1), now);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kNewerSchema);
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
