#include "scheduler/store/postgres_database.h"

#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "scheduler/core/lease.h"
#include "scheduler/store/lease.h"
#include "scheduler/store/postgres_address.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/private_postgres.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::PrivatePostgres;

std::unique_ptr<Database> MustConnect(const std::string& address) {
  auto opened = OpenPostgres(address);
  if (!opened) {
    FAIL(opened.error().message);
  }
  return std::move(*opened);
}

Error ConnectError(const std::string& address) {
  const auto opened = OpenPostgres(address);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find('\n') == std::string::npos);
  CHECK_THAT(opened.error().message, !Contains("hunter2"));
  return opened.error();
}

std::string TextOf(Database& db, const std::string& sql) {
  const auto found = db.Run(sql, {});
  if (!found) {
    FAIL(found.error().message);
  }
  return std::get<std::string>(found->rows.at(0).at(0));
}

int64_t IntOf(Database& db, const std::string& sql) {
  const auto found = db.Run(sql, {});
  if (!found) {
    FAIL(found.error().message);
  }
  return std::get<int64_t>(found->rows.at(0).at(0));
}

TEST_CASE("addresses are told from others, and read as libpq reads them", "[postgres]") {
  CHECK(IsPostgresAddress("postgres://h/d"));
  CHECK(IsPostgresAddress("postgresql://h/d"));
  CHECK(IsPostgresAddress("postgresql:host=h"));
  CHECK_FALSE(IsPostgresAddress("sqlite:/var/tide.db"));
  const auto value = [](const auto& server, const std::string& keyword) {
    for (const auto& [key, text] : server) {
      if (key == keyword) {
        return text;
      }
    }
    return std::string();
  };
  const auto uri = ParsePostgresAddress("postgres://tide@db1:5433/jobs");
  REQUIRE(uri);
  REQUIRE(uri->servers.size() == 1);
  CHECK(value(uri->servers[0], "host") == "db1");
  CHECK(value(uri->servers[0], "port") == "5433");
  CHECK(value(uri->servers[0], "dbname") == "jobs");
  CHECK(value(uri->servers[0], "client_encoding") == "UTF8");
  CHECK_FALSE(uri->has_password);
  const auto two = ParsePostgresAddress("postgresql:host=a,b port=5432 keepalives_idle=77");
  REQUIRE(two);
  REQUIRE(two->servers.size() == 2);
  CHECK(value(two->servers[1], "host") == "b");
  CHECK(value(two->servers[1], "port") == "5432");
  CHECK(value(two->servers[1], "keepalives_idle") == "77");
  CHECK(ParsePostgresAddress("postgres://u:hunter2@h/d")->has_password);
  CHECK(ParsePostgresAddress("postgresql:host=h password=hunter2")->has_password);
  CHECK(ParsePostgresAddress("postgres://u:a?b%2F%40@h/d?user=me@realm")->has_password);
  CHECK(ParsePostgresAddress("postgres://u@%2Frun%2Fpg/d?host=/run/pg"));
}

TEST_CASE("a wrong address is refused in words, its password untold", "[postgres]") {
  const auto [address, words] = GENERATE(table<std::string, std::string>({
      {"postgresql:hots=h", "invalid connection option \"hots\""},
      {"postgresql:host", "missing \"=\" after \"host\""},
      {"postgresql:host=h hunter2 password", "the address of the store is not a PostgreSQL"},
      {"postgres://u:hunter2@[h/d", "the address of the store is not a PostgreSQL"},
      {"postgres://u:hunter2/3@h/d", "%2F"},
      {"postgres://u:3@hunter2@h/d", "%40"},
      {"postgresql:postgres://u:3/hunter2@h", "%2F"},
      {"postgresql:host=a,b port=1,2,3", "differ in length"},
      {"postgresql:host=/tmp port=abc", "invalid integer value \"abc\""},
      {"postgresql:host=/tmp sslmode=perhaps", "invalid sslmode value"},
  }));
  CAPTURE(address);
  const Error error = ConnectError(address);
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK_THAT(error.message, Contains(words));
}

TEST_CASE("who cannot connect is told why and what to do", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  static const bool kUsers = [&] {
    server.Run("postgres",
               "CREATE ROLE needs_password LOGIN PASSWORD 'right'; CREATE ROLE refused LOGIN");
    server.Run("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    return true;
  }();
  CHECK(kUsers);
  const auto [address, code, words] = GENERATE_REF(table<std::string, ErrorCode, std::string>({
      {server.Address("postgres", "nobody_such"), ErrorCode::kPermissionDenied, "check user"},
      {server.Address("postgres", "refused"), ErrorCode::kPermissionDenied, "pg_hba.conf"},
      {server.Address("postgres", "needs_password"),
       ErrorCode::kPermissionDenied,
       "no password supplied"},
      {server.Address("postgres", "needs_password") + " password=hunter2",
       ErrorCode::kPermissionDenied,
       "28P01"},
      {server.Address("no_such"), ErrorCode::kNotFound, "CREATE DATABASE"},
      {server.Address("postgres") + " port=1", ErrorCode::kUnavailable, "cannot be reached"},
      {"postgresql:host=/nowhere dbname=x", ErrorCode::kUnavailable, "check its address"},
      {"postgresql:host=127.0.0.1 port=1 dbname=x", ErrorCode::kUnavailable, "127.0.0.1:1"},
      {"postgresql:host=no.such.host.invalid dbname=x",
       ErrorCode::kUnavailable,
       "no.such.host.invalid"},
      {server.Address("latin"), ErrorCode::kStorage, "ENCODING 'UTF8'"},
  }));
  CAPTURE(address);
  const Error error = ConnectError(address);
  INFO(error.message);
  CHECK(error.code == code);
  CHECK_THAT(error.message, Contains(words) && Contains("PostgreSQL database "));
}

TEST_CASE("the session is durable, whatever the role says", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  server.Run(name,
             "ALTER DATABASE " + name + " SET synchronous_commit = off; ALTER DATABASE " + name +
                 " SET statement_timeout = '3s'; ALTER DATABASE " + name +
                 " SET default_transaction_isolation = 'serializable'; ALTER DATABASE " + name +
                 " SET default_transaction_read_only = on");
  const auto db = MustConnect(server.Address(name));
  CHECK(TextOf(*db, "SELECT current_setting('synchronous_commit')") == "on");
  CHECK(TextOf(*db, "SELECT current_setting('statement_timeout')") == "0");
  CHECK(TextOf(*db, "SELECT current_setting('idle_in_transaction_session_timeout')") == "5s");
  REQUIRE(db->Begin(kNoHurry));
  CHECK(TextOf(*db, "SELECT current_setting('transaction_isolation')") == "read committed");
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  REQUIRE(db->Commit());
  const auto stronger =
      MustConnect(server.Address(name) + " options=-csynchronous_commit=remote_apply");
  CHECK(TextOf(*stronger, "SELECT current_setting('synchronous_commit')") == "remote_apply");
}

TEST_CASE("text that PostgreSQL cannot keep is refused, not cut", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const auto db = MustConnect(server.Address(server.NewDatabase()));
  REQUIRE(db->RunScript("CREATE TABLE t (a TEXT)"));
  for (const std::string& text : {std::string("a\0b", 3), std::string("\xff")}) {
    const auto refused = db->Run("INSERT INTO t VALUES ($1)", std::vector<SqlValue>{text});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(db->Run("SELECT a FROM t", {})->rows.empty());
}

TEST_CASE("what lacks a privilege says so", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  server.Run(name, "CREATE TABLE t (a BIGINT); CREATE ROLE " + name + "_guest LOGIN");
  const auto db = MustConnect(server.Address(name, name + "_guest"));
  for (const char* sql : {"CREATE TABLE u (a BIGINT)", "SELECT a FROM t"}) {
    const auto refused = db->Run(sql, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK_THAT(refused.error().message, Contains("lacks a privilege") && Contains("GRANT"));
  }
}

TEST_CASE("a connection that the server ends is made anew", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  const auto db = MustConnect(server.Address(name));
  const auto end = [&] {
    server.Run(name,
               "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '" +
                   name + "' AND pid <> pg_backend_pid()");
  };
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  SECTION("inside a transaction: told, and nothing of it is kept") {
    REQUIRE(db->Begin(kNoHurry));
    REQUIRE(db->Run("INSERT INTO t VALUES (1)", {}));
    end();
    const auto lost = db->Run("INSERT INTO t VALUES (2)", {});
    REQUIRE_FALSE(lost);
    INFO(lost.error().message);
    CHECK(lost.error().code == ErrorCode::kUnavailable);
    CHECK_THAT(lost.error().message, Contains("57P01"));
    CHECK(db->Queue("INSERT INTO t VALUES (3)", {}).error().code == ErrorCode::kUnavailable);
    CHECK(db->Commit().error().code == ErrorCode::kUnavailable);
    db->Rollback();
  }
  SECTION("while idle: the next statement is told, the one after it works") {
    end();
    CHECK(db->Run("INSERT INTO t VALUES (1)", {}).error().code == ErrorCode::kUnavailable);
  }
  CHECK(IntOf(*db, "SELECT count(*) FROM t") == 0);
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->Queue("INSERT INTO t VALUES (4)", {}));
  REQUIRE(db->Commit());
  CHECK(IntOf(*db, "SELECT count(*) FROM t") == 1);
}

TEST_CASE("a server that does not answer is given up in time", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  const auto db = MustConnect(server.Address(name));
  REQUIRE(db->RunScript("CREATE TABLE t (a BIGINT)"));
  server.Freeze();
  const Duration patience = Duration::Millis(300);
  const int64_t began = MonotonicNanos();
  Status status = db->Begin(patience);
  if (status) {
    status = db->Commit();
  }
  CHECK(status.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(status.error().message, Contains("did not answer in time"));
  db->Rollback();
  // A new connection is not answered either.
  CHECK(db->Begin(patience).error().code == ErrorCode::kUnavailable);
  CHECK(MonotonicNanos() - began >= 2 * patience.nanos());
  server.Thaw();
  REQUIRE(db->Begin(kNoHurry));
  REQUIRE(db->Commit());
}

TEST_CASE("large answers and large statements pass each other", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const auto db = MustConnect(server.Address(server.NewDatabase()));
  REQUIRE(db->RunScript("CREATE TABLE t (a TEXT)"));
  const std::string large(3 << 20, 'x');
  REQUIRE(db->Begin(Duration::Seconds(60)));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(db->Queue("INSERT INTO t VALUES ($1) RETURNING a", std::vector<SqlValue>{large}));
  }
  REQUIRE(db->Commit());
  CHECK(IntOf(*db, "SELECT sum(length(a))::BIGINT FROM t") == 20 * (int64_t{3} << 20));
}

TEST_CASE("two schedulers that start at once on nothing: one leads, one is told", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const Instant now = SystemNow();
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    const std::string address = server.Address(server.NewDatabase());
    std::vector<Result<std::unique_ptr<Store>>> ends(2);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ends.size(); ++i) {
      threads.emplace_back([&, i, db = MustConnect(address)]() mutable {
        ends[i] = Store::Open(std::move(db), "holder " + std::to_string(i), now);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    REQUIRE(ends[0].has_value() != ends[1].has_value());
    const Error& refused = (ends[0] ? ends[1] : ends[0]).error();
    CHECK(refused.code == ErrorCode::kNotLeader);
    CHECK_THAT(refused.message, Contains("leads"));
  }
}

TEST_CASE("a leader whose connection has ended is not waited for", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string address = server.Address(server.NewDatabase());
  const Instant now = SystemNow();
  auto leader = Store::Open(MustConnect(address), "leader", now);
  REQUIRE(leader);
  const auto refused = Store::Open(MustConnect(address), "standby", now);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNotLeader);
  const Term term = (*leader)->term();
  leader->reset();  // it dies: its lease is in force for another 15 s
  const int64_t until = MonotonicNanos() + 10'000'000'000;
  auto standby = Store::Open(MustConnect(address), "standby", now);
  while (!standby && MonotonicNanos() < until) {  // the server notices in its own time
    standby = Store::Open(MustConnect(address), "standby", now);
  }
  REQUIRE(standby);
  CHECK((*standby)->term() > term);
}

TEST_CASE("a leader that connects again keeps others out again", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string address = server.Address(server.NewDatabase());
  const Instant now = SystemNow();
  auto leader = Store::Open(MustConnect(address), "leader", now);
  REQUIRE(leader);
  const int64_t pid = IntOf((*leader)->database(), "SELECT pg_backend_pid()");
  const auto killer = MustConnect(address);
  REQUIRE(killer->Run("SELECT 1 WHERE pg_terminate_backend(" + std::to_string(pid) + ")", {}));
  ClusterState state;
  REQUIRE((*leader)->Commit(state, {}, now + kLeaseRenewal));
  const auto refused = Store::Open(MustConnect(address), "standby", now);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNotLeader);
}

TEST_CASE("who follows a leader that hangs keeps others out when that one ends", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string address = server.Address(server.NewDatabase());
  const auto watch = MustConnect(address);
  const Instant now = SystemNow();
  const Instant later = now + kLeaseDuration + kLeaseDuration;
  auto hung = Store::Open(MustConnect(address), "hung", now);
  REQUIRE(hung);
  auto leader = Store::Open(MustConnect(address), "leader", later);
  REQUIRE(leader);
  hung->reset();
  const std::string sessions =
      "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
  const int64_t until = MonotonicNanos() + 10'000'000'000;
  while (IntOf(*watch, sessions) > 2 && MonotonicNanos() < until) {  // the server's own time
  }
  REQUIRE(IntOf(*watch, sessions) == 2);
  const auto refused = Store::Open(MustConnect(address), "standby", later);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNotLeader);
}

TEST_CASE("a leader that stops in the middle of a batch is followed", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string address = server.Address(server.NewDatabase());
  const Instant now = SystemNow();
  auto stopped = Store::Open(MustConnect(address), "stopped", now);
  REQUIRE(stopped);
  // It holds the lease's row, and the server waits for the rest of what it has sent.
  Database& half = (*stopped)->database();
  REQUIRE(half.RunScript("CREATE TABLE t (a TEXT)"));
  REQUIRE(half.Begin(kNoHurry));
  REQUIRE(RenewLease(half, (*stopped)->term(), now, 1));
  REQUIRE(
      half.Queue("INSERT INTO t VALUES ($1)", std::vector<SqlValue>{std::string(1 << 20, 'x')}));
  auto connected = MustConnect(address);
  REQUIRE(connected->RunScript("SELECT pg_sleep(1.1)"));  // who has just connected is no leader
  auto next = Store::Open(std::move(connected), "next", now + kLeaseDuration + kLeaseDuration);
  if (!next) {
    FAIL(next.error().message);
  }
  CHECK_FALSE(half.Commit());
  half.Rollback();
  CHECK(IntOf((*next)->database(), "SELECT count(*) FROM t") == 0);
}

TEST_CASE("a schema that a newer program brings meanwhile is noticed", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  const Instant now = SystemNow();
  REQUIRE(Store::Open(MustConnect(server.Address(name)), "a", now));
  // Between the look at the version and the lease: by a trigger, as nothing else is quick enough.
  server.Run(name,
             "CREATE FUNCTION migrate_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "INSERT INTO schema_migrations VALUES (999, '0999_future', '2030') "
             "ON CONFLICT DO NOTHING; RETURN NEW; END $$; CREATE TRIGGER t BEFORE UPDATE ON leases "
             "FOR EACH ROW EXECUTE FUNCTION migrate_now()");
  const auto refused = Store::Open(MustConnect(server.Address(name)), "a", now);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNewerSchema);
}

TEST_CASE("of several servers the one that is primary is taken", "[postgres]") {
  PrivatePostgres& server = PrivatePostgres::Shared();
  const auto standby = server.MakeStandby();
  const Error refused = ConnectError(standby->Address("postgres"));
  CHECK(refused.code == ErrorCode::kUnavailable);
  CHECK_THAT(refused.message, Contains("read-only standby") && Contains("name the primary"));
  const std::string primary = server.folder();
  const auto db = MustConnect("postgresql:host=/nowhere," + standby->folder().string() + "," +
                              primary + " user=tide dbname=postgres");
  CHECK_THAT(db->Name(), Contains(primary));
  const Error none = ConnectError("postgresql:host=/nowhere,/nowhere2 user=tide dbname=postgres");
  CHECK(none.code == ErrorCode::kUnavailable);
  CHECK_THAT(none.message, Contains("/nowhere2"));
}

TEST_CASE("a full disk says so, and the commit before it is kept", "[postgres]") {
  if (::geteuid() != 0) {
    WARN("skipped: mounting a small disk needs root");
    return;
  }
  PrivatePostgres& server = PrivatePostgres::Shared();
  const testing::TempDir dir;
  const std::string disk = dir.File("disk");
  std::filesystem::create_directory(disk);
  std::filesystem::permissions(std::filesystem::path(disk).parent_path(),
                               std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  if (::mount("tide-test", disk.c_str(), "tmpfs", 0, "size=2m") != 0) {
    WARN("skipped: no disk can be mounted here");
    return;
  }
  server.Give(disk);
  const std::string name = server.NewDatabase();
  server.Run(name, "CREATE TABLESPACE small_" + name + " LOCATION '" + disk + "'");
  server.Run(name, "CREATE TABLE t (a TEXT) TABLESPACE small_" + name);
  {
    const auto db = MustConnect(server.Address(name));
    REQUIRE(db->Run("INSERT INTO t VALUES ('kept')", {}));
    REQUIRE(db->Begin(kNoHurry));
    // Not to be compressed into nothing.
    REQUIRE(
        db->Queue("INSERT INTO t SELECT md5(i::TEXT) FROM generate_series(1, 100000) AS i", {}));
    const Status full = db->Commit();
    REQUIRE_FALSE(full);
    CHECK(full.error().code == ErrorCode::kStorage);
    CHECK_THAT(full.error().message, Contains("53100") && Contains("free space"));
    db->Rollback();
    CHECK(IntOf(*db, "SELECT count(*) FROM t") == 1);
  }
  server.Run(name, "DROP TABLE t");
  server.Run(name, "DROP TABLESPACE small_" + name);
  CHECK(::umount(disk.c_str()) == 0);
}

}  // namespace
}  // namespace tide
