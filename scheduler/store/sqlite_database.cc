#include "scheduler/store/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "common/base/file.h"

namespace tide {
namespace {

constexpr int64_t kApplicationId = 0x54696465;  // "Tide"
constexpr int64_t kLayoutVersion = 1;           // of the file; tables have schema_migrations
constexpr int kBusyTimeoutMs = 5000;
// A whole check at start stays well under a second up to here; larger files rely on the checks
// SQLite makes on every page it reads.
constexpr int64_t kFullCheckBytesMax = int64_t{64} << 20;

bool Creates(SqliteAccess access) {
  return access == SqliteAccess::kExclusive || access == SqliteAccess::kShared;
}

constexpr const char* kEmpty = " is empty: it holds no store of Tide";

struct Statement {
  sqlite3_stmt* handle = nullptr;
  std::vector<size_t> params;  // by SQLite's index - 1: which of $1, $2 … it is, from 0
};

std::unexpected<Error> Describe(const std::string& path, int rc, const char* detail) {
  const std::string said = std::string(" (SQLite: ") + detail + ")";
  switch (rc & 0xff) {
    case SQLITE_NOTADB:
      return Fail(ErrorCode::kCorrupt,
                  path + " is not a database: move it away or configure another path" + said);
    case SQLITE_CORRUPT:
      return Fail(ErrorCode::kCorrupt,
                  path +
                      " is damaged: restore it from a backup, or save what is readable with "
                      "`sqlite3 FILE .recover`" +
                      said);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Fail(
          ErrorCode::kStorage,
          path + " is read-only: make the file and its folder writable for this user" + said);
    case SQLITE_CANTOPEN:
      return Fail(ErrorCode::kStorage,
                  path + " cannot be opened: check that its folder exists and is writable" + said);
    case SQLITE_FULL:
      return Fail(ErrorCode::kStorage,
                  path +
                      ": no space left: free space on its file system and start again; all "
                      "acknowledged work is kept" +
                      said);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Fail(ErrorCode::kStorage,
                  path + " is locked by another program: end it and start again" + said);
    case SQLITE_IOERR:
      return Fail(
          ErrorCode::kStorage,
          path + " cannot be read or written: check that its disk has space and works (df, dmesg)" +
              said);
    default:
      if (std::string_view(detail).starts_with("no such table")) {
        return Fail(ErrorCode::kNotFound, path + ": a table is missing" + said);
      }
      return Fail(ErrorCode::kStorage, path + ": statement failed" + said);
  }
}

// Takes the lock file, or tells whose it is.
Result<Fd> TakeLock(const std::string& path) {
  const std::string lock_path = path + ".lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return Fail(ErrorCode::kStorage,
                FailErrno("cannot create " + lock_path, errno).error().message +
                    ": check that the folder exists and is writable");
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    std::string pid = ReadFile(lock_path, 64).value_or("unknown");
    pid.resize(std::min(pid.size(), pid.find('\n')));
    return Fail(ErrorCode::kNotLeader,
                path + " is in use by another scheduler (pid " + pid +
                    "): stop it first, or configure another path");
  }
  const std::string mine = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0) {
    return FailErrno("cannot write " + lock_path, errno);
  }
  TIDE_TRY(WriteAll(lock.get(), mine));
  return lock;
}

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(std::string path, SqliteAccess access, Fd lock)
      : path_(std::move(path)), access_(access), lock_(std::move(lock)) {}
  ~SqliteDatabase() override {
    for (auto& [sql, statement] : statements_) {
      sqlite3_finalize(statement.handle);
    }
    sqlite3_close(db_);
  }

  Status Connect() {
    const int rc =
        sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (rc != SQLITE_OK) {
      return Describe(path_, rc, db_ == nullptr ? "out of memory" : sqlite3_errmsg(db_));
    }
    sqlite3_busy_timeout(db_, kBusyTimeoutMs);
    TIDE_TRY(CheckOwner());
    TIDE_ASSIGN(const SqlRows mode, Run("PRAGMA journal_mode = WAL", {}));
    if (mode.rows.empty() || mode.rows[0][0] != SqlValue("wal")) {
      return Fail(ErrorCode::kStorage,
                  path_ + ": its file system has no write-ahead log: use a local disk");
    }
    TIDE_TRY(RunScript("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"));
    return CheckPages();
  }

  Status Begin(Duration /*patience*/, TransactionKind kind) override {
    return RunScript(kind == TransactionKind::kRead ? "BEGIN" : "BEGIN IMMEDIATE");
  }
  Status Commit() override { return RunScript("COMMIT"); }
  void Rollback() override {
    if (sqlite3_get_autocommit(db_) == 0) {
      (void)RunScript("ROLLBACK");  // SQLite keeps nothing of it either way
    }
  }

  Result<SqlRows> Run(std::string_view sql, std::span<const SqlValue> params) override {
    TIDE_ASSIGN(const Statement* statement, Prepare(sql));
    Result<SqlRows> rows = Execute(*statement, params);
    sqlite3_reset(statement->handle);
    sqlite3_clear_bindings(statement->handle);
    return rows;
  }

  Status Queue(std::string_view sql, std::span<const SqlValue> params) override {
    TIDE_TRY(Run(sql, params));
    return {};
  }

  Status RunScript(std::string_view sql) override {
    const int rc = sqlite3_exec(db_, std::string(sql).c_str(), nullptr, nullptr, nullptr);
    if (rc != SQLITE_OK) {
      return Describe(path_, rc, sqlite3_errmsg(db_));
    }
    return {};
  }

  std::string Name() const override { return path_; }
  Result<bool> LockOthersOut(Others /*others*/) override {
    if (access_ == SqliteAccess::kReader && !lock_.valid()) {
      Result<Fd> taken = TakeLock(path_);
      if (!taken && taken.error().code != ErrorCode::kNotLeader) {
        return std::unexpected(taken.error());
      }
      lock_ = taken ? std::move(*taken) : Fd();
    }
    return lock_.valid();
  }

 private:
  Result<int64_t> Pragma(std::string_view name) {
    TIDE_ASSIGN(const SqlRows rows, Run("PRAGMA " + std::string(name), {}));
    return rows.rows.empty() ? Result<int64_t>(0) : IntAt(rows.rows[0], 0, name);
  }

  // Refuses files of other programs and of newer versions; signs a new one.
  Status CheckOwner() {
    TIDE_ASSIGN(const int64_t owner, Pragma("application_id"));
    TIDE_ASSIGN(const int64_t layout, Pragma("user_version"));
    TIDE_ASSIGN(const int64_t objects, Pragma("schema_version"));
    if (owner == kApplicationId && layout > kLayoutVersion) {
      return Fail(ErrorCode::kNewerSchema,
                  path_ + " was written by a newer Tide (layout " + std::to_string(layout) +
                      ", this program knows " + std::to_string(kLayoutVersion) +
                      "): install that version");
    }
    if (owner == kApplicationId) {
      return {};
    }
    if (owner != 0 || objects != 0) {
      return Fail(ErrorCode::kConflict,
                  path_ + " is the database of another program: configure another path");
    }
    if (!Creates(access_)) {
      return Fail(ErrorCode::kNotFound, path_ + kEmpty);
    }
    return RunScript("BEGIN IMMEDIATE; PRAGMA application_id = " + std::to_string(kApplicationId) +
                     "; PRAGMA user_version = " + std::to_string(kLayoutVersion) + "; COMMIT");
  }

  Status CheckPages() {
    struct stat info{};
    if (::stat(path_.c_str(), &info) != 0 || info.st_size > kFullCheckBytesMax) {
      return {};
    }
    TIDE_ASSIGN(const SqlRows found, Run("PRAGMA quick_check(1)", {}));
    if (found.rows.empty() || found.rows[0][0] != SqlValue("ok")) {
      const auto text = found.rows.empty() ? Result<std::string>("no answer")
                                           : TextAt(found.rows[0], 0, "quick_check");
      std::string line = text.value_or("damaged");
      line.resize(std::min(line.size(), line.find('\n')));
      return Describe(path_, SQLITE_CORRUPT, line.c_str());
    }
    return {};
  }

  Result<const Statement*> Prepare(std::string_view sql) {
    if (const auto it = statements_.find(sql); it != statements_.end()) {
      return &it->second;
    }
    Statement statement;
    const int rc = sqlite3_prepare_v3(db_,
                                      sql.data(),
                                      static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT,
                                      &statement.handle,
                                      nullptr);
    if (rc != SQLITE_OK || statement.handle == nullptr) {
      return Describe(path_, rc, sqlite3_errmsg(db_));
    }
    // SQLite numbers "$2" by first appearance, so its name tells which parameter it is.
    const int count = sqlite3_bind_parameter_count(statement.handle);
    for (int i = 1; i <= count; ++i) {
      const char* name = sqlite3_bind_parameter_name(statement.handle, i);
      size_t number = 0;
      for (const char* digit = name == nullptr ? "" : name + 1; *digit != '\0'; ++digit) {
        number = number * 10 + static_cast<size_t>(*digit - '0');
      }
      statement.params.push_back(number - 1);
    }
    return &statements_.emplace(std::string(sql), std::move(statement)).first->second;
  }

  Status Bind(const Statement& statement, std::span<const SqlValue> params) {
    if (statement.params.size() != params.size()) {
      return Fail(ErrorCode::kInternal, "a statement got the wrong number of parameters");
    }
    for (size_t i = 0; i < params.size(); ++i) {
      if (statement.params[i] >= params.size()) {
        return Fail(ErrorCode::kInternal, "parameters of a statement must be $1, $2 …");
      }
      const SqlValue& value = params[statement.params[i]];
      const int index = static_cast<int>(i) + 1;
      int rc = SQLITE_OK;
      if (const auto* number = std::get_if<int64_t>(&value)) {
        rc = sqlite3_bind_int64(statement.handle, index, *number);
      } else if (const auto* real = std::get_if<double>(&value)) {
        rc = sqlite3_bind_double(statement.handle, index, *real);
      } else if (const auto* text = std::get_if<std::string>(&value)) {
        // The caller's values outlive the step, so SQLite need not copy them.
        rc = sqlite3_bind_text64(
            statement.handle, index, text->data(), text->size(), nullptr, SQLITE_UTF8);
      } else {
        rc = sqlite3_bind_null(statement.handle, index);
      }
      if (rc != SQLITE_OK) {
        return Describe(path_, rc, sqlite3_errmsg(db_));
      }
    }
    return {};
  }

  static SqlValue ColumnValue(sqlite3_stmt* handle, int column) {
    switch (sqlite3_column_type(handle, column)) {
      case SQLITE_INTEGER:
        return int64_t{sqlite3_column_int64(handle, column)};
      case SQLITE_FLOAT:
        return sqlite3_column_double(handle, column);
      case SQLITE_TEXT:
      case SQLITE_BLOB: {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle, column));
        const int size = sqlite3_column_bytes(handle, column);
        return bytes == nullptr ? std::string() : std::string(bytes, static_cast<size_t>(size));
      }
      default:
        return std::monostate{};
    }
  }

  Result<SqlRows> Execute(const Statement& statement, std::span<const SqlValue> params) {
    TIDE_TRY(Bind(statement, params));
    SqlRows result;
    int rc = sqlite3_step(statement.handle);
    // After the first step: it prepares anew where the table has got other columns.
    const int columns = sqlite3_column_count(statement.handle);
    for (int i = 0; i < columns; ++i) {
      result.columns.emplace_back(sqlite3_column_name(statement.handle, i));
    }
    for (; rc != SQLITE_DONE; rc = sqlite3_step(statement.handle)) {
      if (rc != SQLITE_ROW) {
        return Describe(path_, rc, sqlite3_errmsg(db_));
      }
      SqlRow& row = result.rows.emplace_back();
      row.reserve(static_cast<size_t>(columns));
      for (int i = 0; i < columns; ++i) {
        row.push_back(ColumnValue(statement.handle, i));
      }
    }
    return result;
  }

  const std::string path_;
  const SqliteAccess access_;
  Fd lock_;
  sqlite3* db_ = nullptr;
  std::map<std::string, Statement, std::less<>> statements_;
};

// Looks before anything is created, also the lock: where a path is mistyped nothing is left behind.
// A file of SQLite's that holds anything is not empty, whatever its write-ahead log holds.
Status CheckIsThere(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    return info.st_size > 0 ? Status() : Fail(ErrorCode::kNotFound, path + kEmpty);
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return Fail(ErrorCode::kNotFound, path + ": no such file");
  }
  return Fail(ErrorCode::kStorage, FailErrno("cannot look at " + path, errno).error().message);
}

// The file holds what users' environments hold: nobody else may read it. An existing one is left to
// SQLite: closing a descriptor of it would drop its locks.
Status Create(const std::string& path) {
  const Fd created(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!created.valid() && errno != EEXIST) {
    return Fail(ErrorCode::kStorage,
                FailErrno("cannot create " + path, errno).error().message +
                    ": check that the folder exists and is writable");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Database>> OpenSqlite(const std::string& path, SqliteAccess access) {
  Fd lock;
  if (!Creates(access)) {
    TIDE_TRY(CheckIsThere(path));
  }
  if (access == SqliteAccess::kExisting || access == SqliteAccess::kExclusive) {
    TIDE_ASSIGN(lock, TakeLock(path));
  }
  if (Creates(access)) {
    TIDE_TRY(Create(path));
  }
  auto database = std::make_unique<SqliteDatabase>(path, access, std::move(lock));
  TIDE_TRY(database->Connect());
  return database;
}

}  // namespace tide
