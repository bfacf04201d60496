#include "scheduler/store/testing/databases.h"

#include <catch2/catch.hpp>

#include "scheduler/store/postgres_database.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/testing/private_postgres.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide::testing {
namespace {

std::unique_ptr<Database> Must(Result<std::unique_ptr<Database>> opened) {
  if (!opened) {
    FAIL(opened.error().message);
  }
  return std::move(*opened);
}

class SqliteFile final : public TestDatabase {
 public:
  std::unique_ptr<Database> Open() override { return Must(OpenSqlite(folder_.File("t.db"))); }
  std::unique_ptr<Database> OpenShared() override {
    return Must(OpenSqlite(folder_.File("t.db"), SqliteAccess::kShared));
  }

 private:
  TempDir folder_;
};

class PostgresOnSharedServer final : public TestDatabase {
 public:
  std::unique_ptr<Database> Open() override {
    return Must(OpenPostgres(PrivatePostgres::Shared().Address(name_)));
  }
  std::unique_ptr<Database> OpenShared() override { return Open(); }

 private:
  const std::string name_ = PrivatePostgres::Shared().NewDatabase();
};

}  // namespace

std::ostream& operator<<(std::ostream& out, Driver driver) {
  return out << (driver == Driver::kSqlite ? "SQLite" : "PostgreSQL");
}

std::unique_ptr<TestDatabase> MakeDatabase(Driver driver) {
  if (driver == Driver::kSqlite) {
    return std::make_unique<SqliteFile>();
  }
  return std::make_unique<PostgresOnSharedServer>();
}

std::unique_ptr<TestDatabase> EachDriver() {
  return MakeDatabase(GENERATE(Driver::kSqlite, Driver::kPostgres));
}

std::unique_ptr<Database> MustOpen(const std::string& path, SqliteAccess access) {
  auto database = OpenSqlite(path, access);
  if (!database) {
    FAIL(database.error().message);
  }
  return *std::move(database);
}

std::unique_ptr<Store> MustOpenStore(std::unique_ptr<Database> database,
                                     const std::string& holder,
                                     Instant now) {
  auto store = Store::Open(std::move(database), holder, now);
  if (!store) {
    FAIL(store.error().message);
  }
  return *std::move(store);
}

int64_t Count(Database& database, const std::string& what) {
  const auto found = database.Run("SELECT count(*) FROM " + what, {});
  if (!found) {
    FAIL(found.error().message);
  }
  return std::get<int64_t>(found->rows.at(0).at(0));
}

}  // namespace tide::testing
