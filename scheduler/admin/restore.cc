#include "scheduler/admin/restore.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <ranges>
#include <vector>

#include "scheduler/admin/dump_tables.h"
#include "scheduler/store/lease.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/summed_rows.h"

namespace tide::admin {
namespace {

constexpr Duration kRestoreMax = Duration::Minutes(24 * 60);

bool IsColumnName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string InsertInto(const TableStart& start) {
  std::string columns;
  std::string params;
  for (size_t i = 0; i < start.columns.size(); ++i) {
    columns += (i == 0 ? "" : ", ") + start.columns[i];
    params += (i == 0 ? "$" : ", $") + std::to_string(i + 1);
  }
  return "INSERT INTO " + start.table + " (" + columns + ") VALUES (" + params + ")";
}

std::span<const Migration> UpTo(int schema) {
  const std::span<const Migration> all = BuiltInMigrations();
  return all.first(static_cast<size_t>(
      std::ranges::count_if(all, [&](const Migration& each) { return each.version <= schema; })));
}

class Restorer {
 public:
  Restorer(Database& database, DumpReader& dump, const RestoreOptions& options)
      : database_(database), dump_(dump), options_(options) {}

  Result<RestoreSummary> Run() {
    TIDE_TRY(CheckOptions());
    TIDE_TRY(CheckHeader());
    TIDE_TRY(LockOthersOut());
    TIDE_TRY(database_.Begin(kRestoreMax, TransactionKind::kBulk));
    Status restored = InTransaction();
    if (restored) {
      restored = database_.Commit();
    }
    if (!restored) {
      database_.Rollback();
      return std::unexpected(restored.error());
    }
    return std::move(summary_);
  }

 private:
  Status CheckOptions() const {
    constexpr uint64_t kMostSkipped = uint64_t{1} << 40U;
    constexpr int64_t kHighestTerm = int64_t{1} << 60U;
    if (options_.skip_job_ids > kMostSkipped || options_.least_term < 0 ||
        options_.least_term > kHighestTerm) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--skip-job-ids goes up to " + std::to_string(kMostSkipped) +
                      ", --least-term from 0 to " + std::to_string(kHighestTerm));
    }
    return {};
  }

  Status CheckHeader() {
    TIDE_ASSIGN(summary_.header, dump_.ReadHeader());
    const DumpHeader& header = summary_.header;
    const int known = BuiltInMigrations().back().version;
    if (header.schema > known) {
      return Fail(ErrorCode::kNewerSchema,
                  dump_.Place() + ": Tide " + header.tide + " wrote it, with schema " +
                      std::to_string(header.schema) + "; this program knows " +
                      std::to_string(known) + ": install that version");
    }
    if (header.schema < 1) {
      return Fail(ErrorCode::kCorrupt, dump_.Place() + ": there is no schema 0");
    }
    if (header.kind == DumpKind::kSnapshot && !options_.accept_snapshot) {
      return Fail(ErrorCode::kInvalidArgument,
                  dump_.Place() +
                      ": a snapshot for a bug report, without history, environments and "
                      "commands: restore a backup, or add --snapshot to look at it");
    }
    return {};
  }

  // As Store::Open does it: a lease that was there before the lock is a dead scheduler's.
  Status LockOthersOut() {
    const Result<int> version = FindSchemaVersion(database_, BuiltInMigrations());
    if (!version && version.error().code != ErrorCode::kNotFound) {
      return std::unexpected(version.error());
    }
    if (version.value_or(0) > 0) {
      TIDE_ASSIGN(last_term_, ReadLeaseTerm(database_));
    }
    TIDE_ASSIGN(const bool alone, database_.LockOthersOut(Database::Others::kLeave));
    if (!alone) {
      return Fail(ErrorCode::kNotLeader,
                  database_.Name() +
                      ": a scheduler is connected: stop it and its standbys before a restore");
    }
    return {};
  }

  Status InTransaction() {
    TIDE_TRY(ClearEmptyStore());
    TIDE_TRY(MakeTables());
    TIDE_TRY(LoadRows());
    TIDE_TRY(MigrateInside(database_, BuiltInMigrations(), options_.now));
    summary_.schema = BuiltInMigrations().back().version;
    TIDE_TRY(RaiseTerm());
    // Also proves that a scheduler can load it.
    TIDE_ASSIGN(const ClusterState state, LoadState(database_));
    TIDE_TRY(CheckSums(database_));
    summary_.next_job_id = state.next_job_id + options_.skip_job_ids;
    return options_.skip_job_ids == 0
               ? Status()
               : WriteCounter(database_, kNextJobCounter, summary_.next_job_id);
  }

  // A scheduler that ran once has made tables; they may be of another schema than the dump's.
  Status ClearEmptyStore() {
    TIDE_ASSIGN(const int version, ReadSchemaVersion(database_, BuiltInMigrations()));
    if (version == 0) {
      return {};
    }
    // With a row to hold, nobody takes the lease until this transaction ends.
    TIDE_TRY(
        database_.Run("INSERT INTO leases (name, term, holder, expires_at, expires_ns) VALUES "
                      "('scheduler', 0, '', '', 0) ON CONFLICT (name) DO NOTHING",
                      {}));
    TIDE_TRY(KeepLeaseFree(database_, {"", options_.now, last_term_}));
    TIDE_ASSIGN(last_term_, ReadLeaseTerm(database_));
    for (const std::string_view table : {"jobs", "nodes", "events"}) {
      TIDE_TRY(RequireEmpty(table));
    }
    const std::span<const Migration> made = UpTo(version);
    for (const std::string& view : NamesCreated(made, "CREATE VIEW ")) {
      TIDE_TRY(database_.RunScript("DROP VIEW IF EXISTS " + view));
    }
    for (const std::string& table : NamesCreated(made, "CREATE TABLE ") | std::views::reverse) {
      TIDE_TRY(database_.RunScript("DROP TABLE IF EXISTS " + table));
    }
    return database_.RunScript("DELETE FROM schema_migrations");
  }

  Status RequireEmpty(std::string_view table) {
    TIDE_ASSIGN(const SqlRows found,
                database_.Run("SELECT 1 FROM " + std::string(table) + " LIMIT 1", {}));
    if (!found.rows.empty()) {
      return Fail(ErrorCode::kAlreadyExists,
                  database_.Name() + " holds " + std::string(table) +
                      ": restore into a new file or database, and start the scheduler on that");
    }
    return {};
  }

  // Their names in schema_migrations come with the dump.
  Status MakeTables() {
    for (const Migration& migration : UpTo(summary_.header.schema)) {
      TIDE_TRY(database_.RunScript(migration.sql));
    }
    return {};
  }

  Status LoadRows() {
    std::string insert;
    size_t columns = 0;
    while (true) {
      TIDE_ASSIGN(const DumpLine line, dump_.Read());
      if (const auto* footer = std::get_if<DumpFooter>(&line)) {
        summary_.rows = footer->rows;
        return CheckSchema();
      }
      if (const auto* start = std::get_if<TableStart>(&line)) {
        TIDE_TRY(CheckTable(*start));
        insert = InsertInto(*start);
        columns = start->columns.size();
        continue;
      }
      const auto& row = std::get<SqlRow>(line);
      if (row.size() != columns) {
        return Fail(ErrorCode::kCorrupt, dump_.Place() + ": a row of another width: " + kDamaged);
      }
      if (const Status queued = database_.Queue(insert, row); !queued) {
        return Refused(queued.error());
      }
    }
  }

  Status CheckTable(const TableStart& start) {
    const DumpTable* table = FindDumpTable(start.table);
    if (table == nullptr || table->since > summary_.header.schema || start.columns.empty() ||
        !std::ranges::all_of(start.columns, IsColumnName)) {
      return Fail(ErrorCode::kCorrupt,
                  dump_.Place() + ": schema " + std::to_string(summary_.header.schema) +
                      " has no such table: " + kDamaged);
    }
    return {};
  }

  // Also settles what is queued: from here on an error is none of a row's.
  Status CheckSchema() {
    const Result<int> schema = FindSchemaVersion(database_, BuiltInMigrations());
    if (!schema) {
      return Refused(schema.error());
    }
    if (*schema != summary_.header.schema) {
      return Fail(ErrorCode::kCorrupt,
                  dump_.Place() + ": its rows are of schema " + std::to_string(*schema) +
                      ", its header says " + std::to_string(summary_.header.schema) + ": " +
                      kDamaged);
    }
    return {};
  }

  // A value that the database does not take is the dump's fault; a full disk is not.
  std::unexpected<Error> Refused(const Error& error) {
    const bool of_row =
        error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNewerSchema;
    return Fail(of_row ? ErrorCode::kCorrupt : error.code,
                dump_.Place() + " or before: " + error.message);
  }

  Status RaiseTerm() {
    TIDE_ASSIGN(const int64_t dumped, ReadLeaseTerm(database_));
    const int64_t clock = options_.now.unix_nanos() / 1'000'000'000 + kTermMargin;
    summary_.term = std::max({dumped, last_term_.value_or(0), options_.least_term, clock});
    // Free at once: whoever held it when the backup was taken leads no more.
    const std::vector<SqlValue> params = {
        summary_.term, FormatRfc3339(options_.now), options_.now.unix_nanos()};
    TIDE_TRY(
        database_.Run("INSERT INTO leases (name, term, holder, expires_at, expires_ns) VALUES "
                      "('scheduler', $1, 'restored from a backup', $2, $3) "
                      "ON CONFLICT (name) DO UPDATE SET term = excluded.term, "
                      "holder = excluded.holder, expires_at = excluded.expires_at, "
                      "expires_ns = excluded.expires_ns",
                      params));
    return {};
  }

  static constexpr const char* kDamaged =
      "the dump is damaged, fetch it again, or take another one";

  Database& database_;
  DumpReader& dump_;
  const RestoreOptions& options_;
  RestoreSummary summary_;
  std::optional<int64_t> last_term_;  // of the store that is restored into
};

}  // namespace

Result<RestoreSummary> Restore(Database& database,
                               DumpReader& dump,
                               const RestoreOptions& options) {
  return Restorer(database, dump, options).Run();
}

}  // namespace tide::admin
