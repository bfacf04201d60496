#include "scheduler/store/postgres_database.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "scheduler/store/postgres_address.h"
#include "scheduler/store/postgres_connection.h"

namespace tide {
namespace {

// For each server of the address; a transaction in a hurry waits less.
constexpr Duration kConnectPatience = Duration::Seconds(5);
// So many statements or bytes wait for their answers at most.
constexpr size_t kQueuedMax = 512;
constexpr size_t kQueuedBytesMax = size_t{4} << 20;
constexpr int64_t kSchedulerLock = 0x54696465;  // "Tide": an advisory lock of the database

size_t BytesOf(std::span<const SqlValue> params) {
  size_t bytes = 0;
  for (const SqlValue& value : params) {
    const auto* text = std::get_if<std::string>(&value);
    bytes += text == nullptr ? sizeof(int64_t) : text->size();
  }
  return bytes;
}

class PostgresDatabase final : public Database {
 public:
  explicit PostgresDatabase(PostgresAddress address) : address_(std::move(address)) {}

  // The first server that is primary. When none is: the first words that are more than "not now",
  // or the last ones.
  Status Connect(std::optional<int64_t> deadline_ns) {
    connection_.reset();
    Error refused = {ErrorCode::kUnavailable, "the address names no server"};
    const auto count = static_cast<int64_t>(address_.servers.size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t now = MonotonicNanos();
      int64_t until = now + kConnectPatience.nanos();
      if (deadline_ns) {  // the servers still to be asked share what is left
        until = std::min(until, now + (*deadline_ns - now) / (count - i));
      }
      auto opened = PostgresConnection::Open(address_.servers[static_cast<size_t>(i)], until);
      if (opened) {
        connection_ = std::move(*opened);
        name_ = connection_->name();
        return {};
      }
      if (refused.code == ErrorCode::kUnavailable) {
        refused = opened.error();
      }
    }
    return std::unexpected(refused);
  }

  Status Begin(Duration patience, TransactionKind kind) override {
    if (open_) {
      return Fail(ErrorCode::kInternal, name_ + ": a transaction is open already");
    }
    TIDE_TRY(EnsureConnected(MonotonicNanos() + patience.nanos()));
    patience_ = patience;
    open_ = true;
    // Waits for nothing: it goes out with the first statement.
    if (kind == TransactionKind::kWrite) {
      return Send("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", {});
    }
    TIDE_TRY(Send(kind == TransactionKind::kRead
                      ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
                      : "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
                  {}));
    return Send("SET LOCAL idle_in_transaction_session_timeout = 0", {});
  }

  Status Commit() override {
    const uint64_t warnings = connection_->warnings();
    TIDE_TRY(Send("COMMIT", {}));
    TIDE_ASSIGN(const PostgresConnection::Answer answer, Finish());
    Close();
    if (answer.tag != "COMMIT") {  // "ROLLBACK": an error came before, and was not heeded
      return Fail(ErrorCode::kStorage, name_ + ": the server rolled the transaction back");
    }
    if (connection_->warnings() != warnings) {
      // Somebody cancelled the wait for a synchronous standby: committed here, perhaps not there.
      connection_.reset();
      return Fail(ErrorCode::kUnavailable, name_ + ": the server does not vouch for the commit");
    }
    return {};
  }

  void Rollback() override {
    if (!open_) {
      return;
    }
    if (!connection_->broken()) {
      // What is still on its way fails or not; nobody asks any more.
      const bool settled = connection_->unfinished() == 0 || Finish() || !connection_->broken();
      if (!settled || !Send("ROLLBACK", {}) || !Finish()) {
        connection_.reset();  // the server rolls back what loses its client
      }
    }
    Close();
  }

  Result<SqlRows> Run(std::string_view sql, std::span<const SqlValue> params) override {
    if (!open_) {
      TIDE_TRY(EnsureConnected(std::nullopt));
    }
    TIDE_TRY(Send(sql, params));
    TIDE_ASSIGN(PostgresConnection::Answer answer, Finish());
    return std::move(answer.rows);
  }

  Status Queue(std::string_view sql, std::span<const SqlValue> params) override {
    TIDE_TRY(Send(sql, params));
    queued_bytes_ += BytesOf(params);
    if (connection_->unfinished() >= kQueuedMax || queued_bytes_ >= kQueuedBytesMax) {
      TIDE_TRY(Finish());
    }
    return {};
  }

  Status RunScript(std::string_view sql) override {
    if (!open_) {
      TIDE_TRY(EnsureConnected(std::nullopt));
    } else if (connection_->unfinished() > 0) {
      TIDE_TRY(Finish());
    }
    if (open_) {
      connection_->SetDeadline(MonotonicNanos() + patience_.nanos());
    }
    return connection_->Script(sql);
  }

  std::string Name() const override { return name_; }
  Result<bool> LockOthersOut(Others others) override {
    locks_out_ = true;
    if (others == Others::kEnd) {
      TIDE_TRY(EndOthers());
    }
    return TakeLock();
  }

 private:
  Status EnsureConnected(std::optional<int64_t> deadline_ns) {
    if (connection_ && !connection_->broken()) {
      return {};
    }
    TIDE_TRY(Connect(deadline_ns));
    if (locks_out_) {
      connection_->SetDeadline(deadline_ns);
      TIDE_TRY(TakeLock());  // or not: the lease says who leads
    }
    return {};
  }

  // Is nobody else connected who has asked? From then on this connection is one who has, until it
  // ends, which the server notices at once where a process dies. Not the only one: where it does
  // not notice, a leader's former connection must not keep out the next one of the same leader,
  // nor one that hangs its successor. When it ends, the leader still counts as connected.
  Result<bool> TakeLock() {
    const std::vector<SqlValue> lock = {kSchedulerLock};
    TIDE_TRY(
        Send("SELECT CASE WHEN pg_try_advisory_lock(CAST($1 AS BIGINT)) THEN 1 ELSE 0 END", lock));
    TIDE_ASSIGN(const PostgresConnection::Answer answer, Finish());
    TIDE_ASSIGN(const int64_t alone, IntAt(answer.rows.rows.at(0), 0, "pg_try_advisory_lock"));
    TIDE_TRY(Send("SELECT pg_try_advisory_lock_shared(CAST($1 AS BIGINT))", lock));
    if (alone == 1) {
      TIDE_TRY(Send("SELECT pg_advisory_unlock(CAST($1 AS BIGINT))", lock));
    }
    TIDE_TRY(Finish());
    return alone == 1;
  }

  // One that has stopped in the middle of a transaction would hold its rows until it goes on: the
  // server, which waits for the rest of its statements, counts it as active. Attempts to lead,
  // which have just connected, are let be; so is who connected as somebody else, whom only a
  // superuser may end.
  Status EndOthers() {
    const std::vector<SqlValue> lock = {kSchedulerLock};
    TIDE_TRY(
        Send("SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks AS l "
             "JOIN pg_stat_activity AS a ON a.pid = l.pid "
             "WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objsubid = 1 "
             "AND l.objid = CAST($1 AS OID) AND a.datname = current_database() "
             "AND a.usename = current_user AND a.pid <> pg_backend_pid() "
             "AND a.backend_start < now() - INTERVAL '1 second'",
             lock));
    TIDE_TRY(Finish());
    return {};
  }

  Status Send(std::string_view sql, std::span<const SqlValue> params) {
    return connection_->Send(sql, params);
  }

  Result<PostgresConnection::Answer> Finish() {
    queued_bytes_ = 0;
    if (open_) {
      connection_->SetDeadline(MonotonicNanos() + patience_.nanos());
    }
    return connection_->Finish();
  }

  // After the end of a transaction.
  void Close() {
    open_ = false;
    queued_bytes_ = 0;
    if (connection_) {
      connection_->SetDeadline(std::nullopt);
    }
  }

  const PostgresAddress address_;
  std::string name_;
  std::unique_ptr<PostgresConnection> connection_;
  bool locks_out_ = false;
  bool open_ = false;
  Duration patience_;  // of the open transaction
  size_t queued_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Database>> OpenPostgres(const std::string& address) {
  TIDE_ASSIGN(PostgresAddress parsed, ParsePostgresAddress(address));
  auto database = std::make_unique<PostgresDatabase>(std::move(parsed));
  TIDE_TRY(database->Connect(std::nullopt));
  return database;
}

}  // namespace tide
