#include "scheduler/store/archive.h"

#include <string>
#include <utility>
#include <vector>

#include "scheduler/store/codec.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

// So many jobs in one statement, which is the same text each time.
constexpr size_t kJobsAtOnce = 32;

struct MovedTable {
  std::string name;
  std::string key;  // the column that says which job
  std::string columns;
};

MovedTable Moved(const StoredTable& table) {
  return {table.name(), table.columns().front(), table.list()};
}

// Returns them in the order in which they are copied; deleted they are in the reverse: a row goes
// before what it refers to.
const std::vector<MovedTable>& MovedTables() {
  static const std::vector<MovedTable> kTables = {
      Moved(Tables().jobs),
      Moved(Tables().attempts),
      Moved(Tables().tasks),
      {"events", "job", "seq, at, at_ns, type, job, node, data"},
  };
  return kTables;
}

// " WHERE job IN ($1, …)"
std::string WhereOneOf(const std::string& key) {
  std::string where = " WHERE " + key + " IN (";
  for (size_t i = 1; i <= kJobsAtOnce; ++i) {
    where += (i == 1 ? "$" : ", $") + std::to_string(i);
  }
  return where + ")";
}

// The statements that move what belongs to kJobsAtOnce jobs.
const std::vector<std::string>& MoveStatements() {
  static const std::vector<std::string> kStatements = [] {
    std::vector<std::string> statements;
    std::vector<std::string> deletions;
    for (const MovedTable& table : MovedTables()) {
      const std::string from = " FROM " + table.name + WhereOneOf(table.key);
      statements.push_back("INSERT INTO archived_" + table.name + " (" + table.columns +
                           ") SELECT " + table.columns + from);
      deletions.insert(deletions.begin(), "DELETE" + from);
    }
    statements.insert(statements.end(), deletions.begin(), deletions.end());
    return statements;
  }();
  return kStatements;
}

std::vector<SqlValue> OwnerKey(const RunHistory::Owner& owner) {
  return {ReadableText(owner.first), ReadableText(owner.second)};
}

// Decodes column `data`, which is read behind the key.
template <typename T>
Result<T> DecodeData(const StoredTable& table,
                     const SqlRow& row,
                     Result<T> (*decode)(std::string_view)) {
  const std::string name = RowName(table, row);
  TIDE_ASSIGN(const std::string text, TextAt(row, table.keys(), name));
  Result<T> value = decode(text);
  return value ? std::move(value) : Fail(ErrorCode::kCorrupt, name + ": " + value.error().message);
}

}  // namespace

Status MoveToArchive(Database& database, const std::set<JobId>& jobs) {
  for (auto next = jobs.begin(); next != jobs.end();) {
    std::vector<SqlValue> ids(kJobsAtOnce, SqlInt(next->value()));
    for (size_t i = 0; i < kJobsAtOnce && next != jobs.end(); ++i, ++next) {
      ids[i] = SqlInt(next->value());
    }
    for (const std::string& statement : MoveStatements()) {
      TIDE_TRY(database.Queue(statement, ids));
    }
  }
  return {};
}

Status WriteArchivedUse(Database& database,
                        const ClusterState& state,
                        const RunHistory::Owner& owner) {
  const auto used = state.archived_use.find(owner);
  if (used == state.archived_use.end()) {
    return database.Queue("DELETE FROM archived_use WHERE project = $1 AND user_name = $2",
                          OwnerKey(owner));
  }
  std::vector<SqlValue> params = OwnerKey(owner);
  params.emplace_back(static_cast<double>(used->second.lately.use_ms) / 1000);
  params.push_back(TimeValue(used->second.lately.as_of));
  params.emplace_back(
      EncodeOwnerUse({owner.first, owner.second, used->second.lately, used->second.held}));
  return WriteRow(database, Tables().archived_use, std::move(params));
}

Status WriteArchivedRun(Database& database, const ClusterState& state, JobId job) {
  const std::vector<SqlValue> key = {SqlInt(job.value())};
  const auto owned = state.archived_runs.find(job);
  if (owned == state.archived_runs.end()) {
    return database.Queue("DELETE FROM archived_runs WHERE job = $1", key);
  }
  return WriteRow(database,
                  Tables().archived_runs,
                  {SqlInt(job.value()),
                   ReadableText(owned->second.project),
                   ReadableText(owned->second.user),
                   TimeValue(owned->second.run.ended),
                   owned->second.run.ran.seconds(),
                   EncodeOwnedRun(owned->second)});
}

Result<Job> LoadArchivedJob(Database& database, JobId id) {
  const std::string name = FormatJobName(id.value());
  const std::vector<SqlValue> key = {SqlInt(id.value())};
  const StoredTables& tables = Tables();
  TIDE_ASSIGN(const SqlRows jobs, ReadRows(database, tables.archived_jobs, "WHERE id = $1", key));
  if (jobs.rows.empty()) {
    return Fail(ErrorCode::kNotFound, name + ": no such job, nor is it in the archive");
  }
  TIDE_ASSIGN(Job job, DecodeData(tables.archived_jobs, jobs.rows.front(), &DecodeJob));
  TIDE_ASSIGN(const SqlRows attempts,
              ReadRows(database, tables.archived_attempts, "WHERE job = $1 ORDER BY epoch", key));
  for (const SqlRow& row : attempts.rows) {
    TIDE_ASSIGN(Attempt attempt, DecodeData(tables.archived_attempts, row, &DecodeAttempt));
    job.attempts.push_back(std::move(attempt));
  }
  TIDE_ASSIGN(
      const SqlRows tasks,
      ReadRows(database, tables.archived_tasks, "WHERE job = $1 ORDER BY epoch, task", key));
  auto attempt = job.attempts.begin();
  for (const SqlRow& row : tasks.rows) {
    TIDE_ASSIGN(Task task, DecodeData(tables.archived_tasks, row, &DecodeTask));
    TIDE_ASSIGN(const int64_t epoch, IntAt(row, 1, "archived_tasks.epoch"));
    while (attempt != job.attempts.end() && std::cmp_less(attempt->epoch.value(), epoch)) {
      ++attempt;
    }
    if (attempt == job.attempts.end() || std::cmp_not_equal(attempt->epoch.value(), epoch)) {
      return Fail(ErrorCode::kCorrupt, "archived_tasks " + name + ": its attempt is missing");
    }
    attempt->tasks.push_back(std::move(task));
  }
  return job;
}

Result<std::vector<Node>> LoadNodeNames(Database& database) {
  TIDE_ASSIGN(const SqlRows found,
              database.Run("SELECT id, name, zone FROM nodes ORDER BY id", {}));
  std::vector<Node> nodes;
  nodes.reserve(found.rows.size());
  for (const SqlRow& row : found.rows) {
    Node& node = nodes.emplace_back();
    TIDE_ASSIGN(const int64_t id, IntAt(row, 0, "nodes.id"));
    if (std::cmp_not_equal(id, nodes.size() - 1)) {
      return Fail(ErrorCode::kCorrupt, "nodes " + std::to_string(id) + ": node ids have a gap");
    }
    node.id = NodeId(static_cast<uint32_t>(id));
    TIDE_ASSIGN(node.identity.name, TextAt(row, 1, "nodes.name"));
    TIDE_ASSIGN(node.identity.zone, TextAt(row, 2, "nodes.zone"));
  }
  return nodes;
}

}  // namespace tide
