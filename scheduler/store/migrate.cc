#include "scheduler/store/migrate.h"

#include <string>
#include <vector>

#include "scheduler/store/summed_rows.h"

namespace tide {
namespace {

Status CreateRecord(Database& database) {
  constexpr std::string_view kCreate =
      "CREATE TABLE IF NOT EXISTS schema_migrations ("
      "version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)";
  // PostgreSQL fails one of two programs that do this at the same moment; then the table is there.
  return database.RunScript(kCreate) ? Status() : database.RunScript(kCreate);
}

// The version's row comes first: a second program doing the same waits for it, then finds it.
Status ApplyOne(Database& database,
                const Migration& migration,
                Instant now,
                const std::function<Status()>& guard) {
  const std::vector<SqlValue> params = {
      int64_t{migration.version}, std::string(migration.name), FormatRfc3339(now)};
  TIDE_ASSIGN(const SqlRows inserted,
              database.Run("INSERT INTO schema_migrations (version, name, applied_at) "
                           "VALUES ($1, $2, $3) ON CONFLICT (version) DO NOTHING "
                           "RETURNING version",
                           params));
  if (inserted.rows.empty()) {
    return {};
  }
  if (guard && migration.version > 1) {
    TIDE_TRY(guard());
  }
  if (migration.sums && migration.version > 1) {
    TIDE_TRY(CheckFormerSums(database));
  }
  TIDE_TRY(database.RunScript(migration.sql));
  return migration.sums ? FillSums(database) : Status();
}

std::unexpected<Error> Named(const Migration& migration, const Error& error) {
  return Fail(error.code, "migration " + std::string(migration.name) + ": " + error.message);
}

}  // namespace

Result<int> ReadSchemaVersion(Database& database, std::span<const Migration> migrations) {
  TIDE_TRY(CreateRecord(database));
  return FindSchemaVersion(database, migrations);
}

Result<int> FindSchemaVersion(Database& database, std::span<const Migration> migrations) {
  TIDE_ASSIGN(const SqlRows found,
              database.Run("SELECT coalesce(max(version), 0) FROM schema_migrations", {}));
  TIDE_ASSIGN(const int64_t version, IntAt(found.rows.at(0), 0, "schema_migrations.version"));
  const int known = migrations.empty() ? 0 : migrations.back().version;
  if (version > known) {
    return Fail(ErrorCode::kNewerSchema,
                database.Name() + " was written by a newer Tide (schema " +
                    std::to_string(version) + ", this program knows " + std::to_string(known) +
                    "): install that version, or restore a backup made before the upgrade");
  }
  return static_cast<int>(version);
}

namespace {

// A store is there whole, or not at all: a disk that is full while it is made leaves none.
Status MakeAtOnce(Database& database, std::span<const Migration> migrations, Instant now) {
  TIDE_TRY(database.Begin(kNoHurry));
  Status made = MigrateInside(database, migrations, now);
  if (made) {
    made = database.Commit();
  }
  database.Rollback();
  return made;
}

}  // namespace

Result<bool> HoldsStore(Database& database) {
  const Result<int> version = FindSchemaVersion(database, BuiltInMigrations());
  if (!version && version.error().code != ErrorCode::kNotFound) {
    return std::unexpected(version.error());
  }
  return version.value_or(0) > 0;
}

Status Migrate(Database& database,
               std::span<const Migration> migrations,
               Instant now,
               const std::function<Status()>& guard) {
  TIDE_ASSIGN(const int version, ReadSchemaVersion(database, migrations));
  if (version == 0) {
    return MakeAtOnce(database, migrations, now);
  }
  for (const Migration& migration : migrations) {
    if (migration.version <= version) {
      continue;
    }
    TIDE_TRY(database.Begin(kNoHurry));
    Status applied = ApplyOne(database, migration, now, guard);
    if (applied) {
      applied = database.Commit();
    }
    if (!applied) {
      database.Rollback();
      return Named(migration, applied.error());
    }
  }
  return {};
}

Status MigrateInside(Database& database, std::span<const Migration> migrations, Instant now) {
  TIDE_ASSIGN(const int version, ReadSchemaVersion(database, migrations));
  for (const Migration& migration : migrations) {
    if (migration.version <= version) {
      continue;
    }
    if (const Status applied = ApplyOne(database, migration, now, {}); !applied) {
      return Named(migration, applied.error());
    }
  }
  return {};
}

}  // namespace tide
