#include "scheduler/admin/backup.h"

#include <algorithm>
#include <vector>

#include "scheduler/admin/dump_tables.h"
#include "scheduler/admin/redact.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/summed_rows.h"

namespace tide::admin {
namespace {

// A row of a large gang's attempt is a few kB; so many rows at once stay small.
constexpr int64_t kPage = 256;
constexpr Duration kBackupMax = Duration::Minutes(24 * 60);

// "SELECT * FROM tasks WHERE (job, epoch, task) > ($1, $2, $3) ORDER BY job, epoch, task LIMIT 256"
std::string PageQuery(const DumpTable& table, bool first) {
  std::string keys;
  std::string params;
  for (size_t i = 0; i < table.keys.size() && !table.keys[i].empty(); ++i) {
    keys += (i == 0 ? "" : ", ") + std::string(table.keys[i]);
    params += (i == 0 ? "$" : ", $") + std::to_string(i + 1);
  }
  std::string where;
  if (!first) {
    where.append(" WHERE (").append(keys).append(") > (").append(params).append(")");
  }
  return "SELECT * FROM " + std::string(table.name) + where + " ORDER BY " + keys + " LIMIT " +
         std::to_string(kPage);
}

// The key of a page's last row: where the next one begins.
std::vector<SqlValue> KeyOf(const DumpTable& table, const SqlRows& page) {
  std::vector<SqlValue> key;
  for (const std::string_view name : table.keys) {
    const auto column = std::ranges::find(page.columns, name);
    if (column != page.columns.end()) {
      key.push_back(page.rows.back().at(static_cast<size_t>(column - page.columns.begin())));
    }
  }
  return key;
}

class Backup {
 public:
  Backup(Database& database, DumpWriter& file, const DumpOptions& options)
      : database_(database), file_(file), options_(options) {}

  Result<DumpSummary> Run() {
    TIDE_ASSIGN(summary_.schema, SchemaVersion());
    TIDE_TRY(file_.Write(DumpHeader{kDumpFormat,
                                    options_.kind,
                                    summary_.schema,
                                    options_.version,
                                    FormatRfc3339(options_.now),
                                    database_.Name()}));
    for (const DumpTable& table : DumpTables()) {
      const bool wanted = options_.kind == DumpKind::kBackup || table.in_snapshot;
      if (wanted && table.since <= summary_.schema) {
        TIDE_TRY(WriteTable(table));
      }
    }
    TIDE_TRY(file_.Finish(summary_.rows));
    return std::move(summary_);
  }

 private:
  Result<int> SchemaVersion() {
    Result<int> version = FindSchemaVersion(database_, BuiltInMigrations());
    const bool unused = version ? *version == 0 : version.error().code == ErrorCode::kNotFound;
    if (unused) {
      return Fail(ErrorCode::kNotFound,
                  database_.Name() +
                      " holds none of Tide's tables: check --store; a scheduler "
                      "makes them when it starts");
    }
    return version;
  }

  Status WriteTable(const DumpTable& table) {
    TIDE_ASSIGN(SqlRows page, database_.Run(PageQuery(table, true), {}));
    TIDE_TRY(file_.Write(TableStart{std::string(table.name), page.columns}));
    int64_t& count = summary_.rows[std::string(table.name)];
    const std::string next = PageQuery(table, false);
    const StoredTable* stored = FindStoredTable(table.name);
    // A former schema has no sums.
    const bool summed = std::ranges::find(page.columns, "sum") != page.columns.end();
    while (!page.rows.empty()) {
      count += static_cast<int64_t>(page.rows.size());
      const std::vector<SqlValue> key = KeyOf(table, page);
      for (SqlRow& row : page.rows) {
        if (options_.kind == DumpKind::kSnapshot) {
          LeaveSecretsOut(table.name, page.columns, options_.with_commands, row);
        } else if (stored != nullptr && summed) {
          TIDE_TRY(CheckIsSound(*stored, page.columns, row));
        }
        TIDE_TRY(file_.Write(std::move(row)));
      }
      if (page.rows.size() < kPage) {
        break;
      }
      TIDE_ASSIGN(page, database_.Run(next, key));
    }
    return {};
  }

  // A damaged row must not take the place of the sound one in an older backup.
  Status CheckIsSound(const StoredTable& table,
                      const std::vector<std::string>& columns,
                      const SqlRow& row) {
    const Status sound = CheckRow(table, ProvedPart(table, columns, row));
    return sound ? Status() : BrokenRow(database_, sound.error().message);
  }

  Database& database_;
  DumpWriter& file_;
  const DumpOptions& options_;
  DumpSummary summary_;
};

}  // namespace

Result<DumpSummary> WriteDump(Database& database, DumpWriter& file, const DumpOptions& options) {
  TIDE_TRY(database.Begin(kBackupMax, TransactionKind::kRead));
  Result<DumpSummary> written = Backup(database, file, options).Run();
  database.Rollback();
  return written;
}

}  // namespace tide::admin
