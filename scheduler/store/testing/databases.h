#pragma once
// The drivers, for tests that hold for each: GENERATE(Driver::kSqlite, Driver::kPostgres).

#include <memory>
#include <ostream>
#include <string>

#include "common/base/time.h"
#include "scheduler/store/database.h"
#include "scheduler/store/sqlite_database.h"
#include "scheduler/store/store.h"

namespace tide::testing {

enum class Driver {
  kSqlite,
  kPostgres,
};
std::ostream& operator<<(std::ostream& out, Driver driver);

// One fresh, empty database.
class TestDatabase {
 public:
  virtual ~TestDatabase() = default;
  // As a scheduler opens it.
  [[nodiscard]] virtual std::unique_ptr<Database> Open() = 0;
  // One more beside others.
  [[nodiscard]] virtual std::unique_ptr<Database> OpenShared() = 0;
};

[[nodiscard]] std::unique_ptr<TestDatabase> MakeDatabase(Driver driver);
// For Catch: the test runs once with each.
[[nodiscard]] std::unique_ptr<TestDatabase> EachDriver();

// When tests begin.
inline const Instant kNow = Instant::FromUnixNanos(1'750'000'000'000'000'000);

// All fail the test where that cannot be.
[[nodiscard]] std::unique_ptr<Database> MustOpen(const std::string& path,
                                                 SqliteAccess access = SqliteAccess::kExclusive);
[[nodiscard]] std::unique_ptr<Store> MustOpenStore(std::unique_ptr<Database> database,
                                                   const std::string& holder,
                                                   Instant now);
// The rows of a table, or of what follows FROM.
[[nodiscard]] int64_t Count(Database& database, const std::string& what);

}  // namespace tide::testing
