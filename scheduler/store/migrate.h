#pragma once
// Brings the tables of a database to this program's schema. Numbered SQL files in migrations/ are
// compiled in; a released one never changes, so that every old database stays loadable.

#include <functional>
#include <span>
#include <string_view>

#include "common/base/time.h"
#include "scheduler/store/database.h"

namespace tide {

struct Migration {
  int version;            // 1, 2, 3 …
  std::string_view name;  // "0001_initial"
  std::string_view sql;
  bool sums = false;  // it changes rows: their checksums are made anew
};

// Those of this program, by version.
[[nodiscard]] std::span<const Migration> BuiltInMigrations();

// The version of the newest migration applied, 0 for an empty database, which gets the table that
// holds it.
//   Errors: kNewerSchema when it is newer than the last of `migrations`.
[[nodiscard]] Result<int> ReadSchemaVersion(Database& database,
                                            std::span<const Migration> migrations);

// The same, but changes nothing.
//   Errors: kNotFound where no table holds it: nobody has migrated this database.
[[nodiscard]] Result<int> FindSchemaVersion(Database& database,
                                            std::span<const Migration> migrations);

// Whether a store was made in this database; changes nothing.
//   Errors: kNewerSchema, those of the database.
[[nodiscard]] Result<bool> HoldsStore(Database& database);

// Applies what is missing, each in a transaction of its own, in an empty database all in one.
// Programs that do so at the same time wait for each other.
//   guard: called inside each of them, but not in an empty database; its error ends it.
[[nodiscard]] Status Migrate(Database& database,
                             std::span<const Migration> migrations,
                             Instant now,
                             const std::function<Status()>& guard = {});

// The same inside the caller's transaction.
[[nodiscard]] Status MigrateInside(Database& database,
                                   std::span<const Migration> migrations,
                                   Instant now);

}  // namespace tide
