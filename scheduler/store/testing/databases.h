#pragma once
// The drivers, for tests that hold for each: GENERATE(Driver::kSqlite, Driver::kPostgres).

#include <memory>
#include <ostream>
#include <string>

#include "scheduler/store/database.h"

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

}  // namespace tide::testing
