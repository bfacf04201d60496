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

}  // namespace tide::testing
