#include "scheduler/admin/migration_check.h"

#include <utility>

#include "scheduler/store/lease.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/summed_rows.h"

namespace tide::admin {
namespace {

Status LoadInto(Database& database, MigrationCheck& check) {
  TIDE_ASSIGN(const ClusterState state, LoadState(database));
  check.jobs = state.jobs.size();
  check.nodes = state.nodes.size();
  return CheckSums(database);
}

Status TryMigrations(Database& database, const Candidate& candidate, MigrationCheck& check) {
  if (check.schema > 0) {
    TIDE_TRY(KeepLeaseFree(database, candidate));
  }
  TIDE_TRY(MigrateInside(database, BuiltInMigrations(), candidate.now));
  return LoadInto(database, check);
}

Status RolledBack(Database& database, Status status) {
  database.Rollback();
  return status;
}

}  // namespace

Result<MigrationCheck> CheckMigration(Database& database, Instant now) {
  MigrationCheck check;
  check.known = BuiltInMigrations().back().version;
  const Result<int> version = FindSchemaVersion(database, BuiltInMigrations());
  if (!version && version.error().code != ErrorCode::kNotFound) {
    return std::unexpected(version.error());
  }
  check.schema = version.value_or(0);
  for (const Migration& migration : BuiltInMigrations()) {
    if (migration.version > check.schema) {
      check.pending.emplace_back(migration.name);
    }
  }
  if (check.pending.empty()) {
    TIDE_TRY(database.Begin(kNoHurry, TransactionKind::kRead));
    TIDE_TRY(RolledBack(database, LoadInto(database, check)));
    return check;
  }
  Candidate candidate{"", now, {}};
  if (check.schema > 0) {
    TIDE_ASSIGN(candidate.dead_term, ReadLeaseTerm(database));
  }
  TIDE_ASSIGN(const bool alone, database.LockOthersOut(Database::Others::kLeave));
  if (!alone) {
    check.untried = "a scheduler is connected, and would be held up";
    return check;
  }
  TIDE_TRY(database.Begin(kNoHurry));
  const Status tried = RolledBack(database, TryMigrations(database, candidate, check));
  if (!tried && tried.error().code == ErrorCode::kNotLeader) {
    check.untried = tried.error().message;
    return check;
  }
  TIDE_TRY(tried);
  return check;
}

}  // namespace tide::admin
