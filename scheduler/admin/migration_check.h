#pragma once
// Would a scheduler of this version start on this store? Asked before it is tried.

#include <string>
#include <vector>

#include "common/base/time.h"
#include "scheduler/store/database.h"

namespace tide::admin {

struct MigrationCheck {
  int schema = 0;                    // of the store; 0 = it has no tables yet
  int known = 0;                     // of this program
  std::vector<std::string> pending;  // migrations that a start would run
  std::string untried;               // why they were not run to see; "" = they were, or none is
  size_t jobs = 0;                   // that this program loads, unless untried
  size_t nodes = 0;
};

// Runs what is pending in a transaction that it rolls back, where no scheduler uses the store, and
// loads the state that comes out. Changes nothing.
//   Errors: those that a scheduler's start would end with.
[[nodiscard]] Result<MigrationCheck> CheckMigration(Database& database, Instant now);

}  // namespace tide::admin
