#include "scheduler/store/open_database.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/testing/private_postgres.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide {
namespace {

using Catch::Contains;
using testing::PrivatePostgres;
using testing::TempDir;

TEST_CASE("an address names the driver", "[open]") {
  const TempDir dir;
  const auto sqlite = OpenDatabaseToMake("sqlite:" + dir.File("t.db"));
  REQUIRE(sqlite);
  CHECK((*sqlite)->LockOthersOut(Database::Others::kLeave) == true);
  const std::string folder = PrivatePostgres::Shared().folder();
  CHECK(OpenDatabaseToMake(PrivatePostgres::Shared().Address("postgres")));
  CHECK(OpenDatabaseToMake("postgres://tide@/postgres?host=" + folder));
  for (const std::string address : {"", "sqlite:", "/var/tide.db", "mysql://h/d"}) {
    const auto refused = OpenDatabase(address);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK_THAT(refused.error().message, Contains("--store " + address) && Contains("sqlite:/path"));
  }
  CHECK_THAT(OpenDatabase("postgre://u:hunter2@h/d").error().message, !Contains("hunter2"));
}

TEST_CASE("where no store is, none is opened, and nothing is left", "[open]") {
  const auto refusal = [](const std::string& address) {
    const auto refused = OpenDatabase(address);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kNotFound);
    CHECK_THAT(refused.error().message, Contains("correct --store") && Contains("--init"));
    return refused.error().message;
  };
  const TempDir dir;
  const std::string path = dir.File("t.db");
  CHECK_THAT(refusal("sqlite:" + path), Contains(path + ": no such file"));
  CHECK_THAT(refusal("sqlite:" + path + "/t.db"), Contains("no such file"));
  CHECK(std::filesystem::is_empty(dir.File("")));
  std::ofstream(path).flush();
  CHECK_THAT(refusal("sqlite:" + path), Contains(path + " is empty"));
  CHECK(std::filesystem::file_size(path) == 0);
  CHECK_FALSE(std::filesystem::exists(path + ".lock"));
  REQUIRE(OpenDatabaseToMake("sqlite:" + path));  // signed, but no table yet
  CHECK_THAT(refusal("sqlite:" + path), Contains(path + " holds no store"));

  PrivatePostgres& server = PrivatePostgres::Shared();
  const std::string name = server.NewDatabase();
  CHECK_THAT(refusal(server.Address(name)), Contains(name));
  const auto database = OpenDatabaseToMake(server.Address(name));
  REQUIRE(database);
  CHECK_FALSE((*database)->Run("SELECT count(*) FROM schema_migrations", {}));
  REQUIRE(Migrate(**database, BuiltInMigrations(), SystemNow()));
  CHECK(OpenDatabase(server.Address(name)));
}

TEST_CASE("a password does not belong on the command line", "[open]") {
  CHECK(CheckHasNoPassword("sqlite:/var/tide.db"));
  CHECK(CheckHasNoPassword("postgres://tide@db1/tide"));
  for (const std::string address :
       {"postgres://tide:hunter2@db1/tide", "postgresql:host=db1 password=hunter2"}) {
    const Status refused = CheckHasNoPassword(address);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, Contains("--store-file") && !Contains("hunter2"));
  }
}

TEST_CASE("an address file is its owner's alone", "[open]") {
  const TempDir dir;
  const std::string path = dir.File("store");
  CHECK_FALSE(ReadAddressFile(path));
  REQUIRE(WriteFileDurably(path, "  postgres://tide:hunter2@db1/tide \nmore\n", 0600));
  CHECK(ReadAddressFile(path) == "postgres://tide:hunter2@db1/tide");
  REQUIRE(WriteFileDurably(path, "x", 0640));
  CHECK_THAT(ReadAddressFile(path).error().message, Contains("chmod 600"));
  REQUIRE(WriteFileDurably(path, " \n", 0600));
  CHECK_THAT(ReadAddressFile(path).error().message, Contains("is empty"));
}

}  // namespace
}  // namespace tide
