#pragma once
// The port to a SQL database. Statements are written once, in the dialect that SQLite and
// PostgreSQL share: $1 parameters, ON CONFLICT, RETURNING, BIGINT / TEXT / DOUBLE PRECISION.
// One thread at a time. Errors name the database and the way out, on one line.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"

namespace tide {

using SqlValue = std::variant<std::monostate, int64_t, double, std::string>;
using SqlRow = std::vector<SqlValue>;

struct SqlRows {
  std::vector<std::string> columns;
  std::vector<SqlRow> rows;
};

enum class TransactionKind {
  kWrite,
  kRead,  // sees one state of everything from its first statement on, and holds no writer up
  kBulk,  // writes, and may pause as long as it likes between statements: not for a leader
};

class Database {
 public:
  virtual ~Database() = default;
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  //   patience: where a server is asked, it is waited for so long each time. A transaction of many
  //   statements may take longer while its answers come.
  //   Errors, here and in all calls to Commit: kUnavailable when the connection is lost; the next
  //   Begin connects again.
  [[nodiscard]] virtual Status Begin(Duration patience, TransactionKind kind) = 0;
  [[nodiscard]] Status Begin(Duration patience) { return Begin(patience, TransactionKind::kWrite); }
  // After return everything since Begin survives a power cut. On error nothing of it does, except
  // after kUnavailable: then nobody knows, and the caller has to look.
  [[nodiscard]] virtual Status Commit() = 0;
  // Gives up the open transaction, if there is one.
  virtual void Rollback() = 0;

  // Runs one statement; it is prepared once and kept under its text.
  //   params: values of $1, $2 …; their number must match.
  //   Errors: kNotFound for a table that is not there.
  [[nodiscard]] virtual Result<SqlRows> Run(std::string_view sql,
                                            std::span<const SqlValue> params) = 0;
  // Inside a transaction: the same for a statement whose rows nobody wants. It may run as late as
  // the next Run or Commit, which then has its error.
  [[nodiscard]] virtual Status Queue(std::string_view sql, std::span<const SqlValue> params) = 0;
  // Runs several statements without parameters: migrations and dumps.
  [[nodiscard]] virtual Status RunScript(std::string_view sql) = 0;

  // What messages call it: a file's path, or server and database.
  [[nodiscard]] virtual std::string Name() const = 0;
  // Asks to be the only scheduler on this data for as long as this object lives. True: no other one
  // is connected, so a lease found in it is that of a dead one, or of one that finds the next term
  // when it connects again. False: another may be.
  enum class Others {
    kLeave,
    kEnd,  // connections of others end that are older than any attempt to lead: once no lease lasts
  };
  [[nodiscard]] virtual Result<bool> LockOthersOut(Others others) = 0;
};

// For transactions that nobody waits for: migrations.
inline constexpr Duration kNoHurry = Duration::Minutes(30);

// A column of a row, or the Error kCorrupt naming `what`.
[[nodiscard]] Result<int64_t> IntAt(const SqlRow& row, size_t column, std::string_view what);
[[nodiscard]] Result<std::string> TextAt(const SqlRow& row, size_t column, std::string_view what);

}  // namespace tide
