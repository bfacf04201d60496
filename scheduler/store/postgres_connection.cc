#include "scheduler/store/postgres_connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "common/log/log.h"
#include "scheduler/store/postgres_errors.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

constexpr int kLeastServerVersion = 130000;

// Types by their numbers in pg_type; the rest is text.
constexpr Oid kBool = 16;
constexpr Oid kInt8 = 20;
constexpr Oid kInt2 = 21;
constexpr Oid kInt4 = 23;
constexpr Oid kOid = 26;
constexpr Oid kFloat4 = 700;
constexpr Oid kFloat8 = 701;
constexpr Oid kNumeric = 1700;

// What a role or a database may have set otherwise. Servers that lack one are left alone.
//  - synchronous_commit: a commit that returned survives a power cut, and the loss of the primary
//    where the server has synchronous standbys.
//  - the timeouts for clients that vanished: their transaction holds the lease's row, for which the
//    next connection waits (store.h). All are well under the lease.
//  - the others must not end a statement or a session that is merely slow.
constexpr const char* kSetSession =
    "SELECT set_config(name, CASE WHEN name = 'synchronous_commit' AND "
    "current_setting(name) = 'remote_apply' THEN 'remote_apply' ELSE value END, false) "
    "FROM (VALUES ('synchronous_commit', 'on'), ('idle_in_transaction_session_timeout', '5s'), "
    "('client_connection_check_interval', '1s'), ('tcp_keepalives_idle', '3'), "
    "('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3'), "
    "('tcp_user_timeout', '6000'), ('idle_session_timeout', '0'), ('statement_timeout', '0'), "
    "('lock_timeout', '0'), ('extra_float_digits', '1'), ('standard_conforming_strings', 'on'), "
    "('client_min_messages', 'warning')) AS wanted (parameter, value) "
    "JOIN pg_settings ON name = parameter";

constexpr const char* kLook =
    "SELECT CAST(pg_is_in_recovery() AS INT), current_setting('server_encoding'), "
    "current_setting('fsync')";

SqlValue ValueOf(const PGresult* result, int row, int column) {
  if (PQgetisnull(result, row, column) != 0) {
    return std::monostate{};
  }
  const char* text = PQgetvalue(result, row, column);
  const char* end = text + PQgetlength(result, row, column);
  switch (PQftype(result, column)) {
    case kBool:
      return int64_t{*text == 't' ? 1 : 0};
    case kInt2:
    case kInt4:
    case kInt8:
    case kOid: {
      int64_t number = 0;
      std::from_chars(text, end, number);
      return number;
    }
    case kFloat4:
    case kFloat8:
    case kNumeric: {
      double number = 0;
      std::from_chars(text, end, number);  // also "Infinity" and "NaN"
      return number;
    }
    default:
      return std::string(text, end);
  }
}

std::string TextOf(const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return std::to_string(*number);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    std::array<char, 40> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), *real);
    return {text.data(), end.ptr};
  }
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

// "FATAL:  28P01: password …": libpq tells the code of a failed connection only inside the text.
struct Refusal {
  std::string sqlstate;
  std::string text;
};

Refusal ParseRefusal(std::string_view message) {
  constexpr std::string_view kBefore = ":  ";
  constexpr size_t kLength = 5;
  for (size_t at = message.find(kBefore); at != std::string_view::npos;
       at = message.find(kBefore, at + 1)) {
    const std::string_view code = message.substr(at + kBefore.size(), kLength);
    const std::string_view rest = message.substr(at + kBefore.size() + code.size());
    const bool is_code = code.size() == kLength && std::ranges::all_of(code, [](unsigned char c) {
                           return std::isdigit(c) != 0 || std::isupper(c) != 0;
                         });
    if (is_code && rest.starts_with(": ")) {
      return {std::string(code), std::string(rest.substr(2, rest.find('\n') - 2))};
    }
  }
  return {"", std::string(message)};
}

void CountWarning(void* counter, const PGresult* notice) {
  const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::strcmp(severity, "WARNING") == 0) {
    ++*static_cast<uint64_t*>(counter);
  }
}

// Not refused: servers whose storage is durable by itself say the same.
void WarnOnce(const std::string& name) {
  [[maybe_unused]] static const bool kWarned = [&] {
    log::Warning("The store's server does not wait for its disk: a power cut may lose commits",
                 {{"Database", name}, {"Setting", "fsync = off"}});
    return true;
  }();
}

std::string NameOf(const PGconn* conn) {
  const auto word = [](const char* text) { return std::string(text == nullptr ? "" : text); };
  return "PostgreSQL database " + word(PQdb(conn)) + " at " + word(PQhost(conn)) + ":" +
         word(PQport(conn)) + " (user " + word(PQuser(conn)) + ")";
}

}  // namespace

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(const Parameters& server,
                                                                     int64_t deadline_ns) {
  std::unique_ptr<PostgresConnection> connection(new PostgresConnection());
  connection->SetDeadline(deadline_ns);
  TIDE_TRY(connection->Connect(server));
  TIDE_TRY(connection->CheckServer());
  connection->SetDeadline(std::nullopt);
  return connection;
}

PostgresConnection::~PostgresConnection() {
  PQfinish(conn_);
}

void PostgresConnection::SetDeadline(std::optional<int64_t> deadline_ns) {
  deadline_ns_ = deadline_ns;
  heard_ns_ = MonotonicNanos();
}

Status PostgresConnection::Connect(const Parameters& server) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : server) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  conn_ = PQconnectStartParams(keywords.data(), values.data(), 0);
  if (conn_ == nullptr) {
    return Fail(ErrorCode::kSystem, "libpq is out of memory");
  }
  name_ = NameOf(conn_);
  PQsetErrorVerbosity(conn_, PQERRORS_VERBOSE);
  PQsetNoticeReceiver(conn_, &CountWarning, &warnings_);
  PostgresPollingStatusType state = PGRES_POLLING_WRITING;
  while (PQstatus(conn_) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
         state != PGRES_POLLING_FAILED) {
    TIDE_TRY(WaitFor(state == PGRES_POLLING_READING ? POLLIN : POLLOUT));
    state = PQconnectPoll(conn_);
  }
  if (PQstatus(conn_) != CONNECTION_OK) {
    const std::string message = PQerrorMessage(conn_);
    if (message.starts_with("invalid ") || message.starts_with("could not match ")) {
      return Fail(ErrorCode::kInvalidArgument,
                  name_ + ": " + OneLine(message) + ": correct the address of the store");
    }
    Refusal refusal = ParseRefusal(message);
    if (refusal.sqlstate.empty() && PQconnectionNeedsPassword(conn_) != 0) {
      refusal.sqlstate = "28P01";
    }
    return std::unexpected(PostgresError(name_, refusal.sqlstate, refusal.text));
  }
  PQsetErrorVerbosity(conn_, PQERRORS_DEFAULT);
  if (PQsetnonblocking(conn_, 1) != 0 || PQenterPipelineMode(conn_) != 1) {
    return Fail(ErrorCode::kSystem, name_ + ": libpq has no pipeline mode");
  }
  return {};
}

// Refused is what would lose or change data without anybody noticing.
Status PostgresConnection::CheckServer() {
  const int version = PQserverVersion(conn_);
  if (version < kLeastServerVersion) {
    return Fail(ErrorCode::kStorage,
                name_ + ": its server is PostgreSQL " + std::to_string(version / 10000) +
                    ", Tide needs " + std::to_string(kLeastServerVersion / 10000) + " or newer");
  }
  TIDE_TRY(Send(kLook, {}));
  TIDE_ASSIGN(const Answer looked, Finish());
  const SqlRow& row = looked.rows.rows.at(0);
  if (row.at(0) == SqlValue(int64_t{1})) {
    return Fail(ErrorCode::kUnavailable,
                name_ +
                    ": its server is a read-only standby: name the primary, or all servers as "
                    "host=a,b, and Tide takes the one that is primary");
  }
  if (row.at(1) != SqlValue("UTF8")) {
    TIDE_ASSIGN(const std::string encoding, TextAt(row, 1, "server_encoding"));
    return Fail(ErrorCode::kStorage,
                name_ + " has the encoding " + encoding +
                    ": create it with ENCODING 'UTF8' TEMPLATE template0");
  }
  if (row.at(2) == SqlValue("off")) {
    WarnOnce(name_);
  }
  TIDE_TRY(Send(kSetSession, {}));
  TIDE_TRY(Finish());
  return {};
}

Status PostgresConnection::Send(std::string_view sql, std::span<const SqlValue> params) {
  if (broken()) {
    return Fail(ErrorCode::kUnavailable, name_ + ": the connection is lost");
  }
  std::vector<std::string> texts;
  std::vector<const char*> values;
  texts.reserve(params.size());
  for (const SqlValue& value : params) {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && text->find('\0') != std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  name_ + ": PostgreSQL keeps no text with a NUL byte");
    }
    if (std::holds_alternative<std::monostate>(value)) {
      values.push_back(nullptr);
    } else if (text != nullptr) {
      values.push_back(text->c_str());
    } else {
      values.push_back(texts.emplace_back(TextOf(value)).c_str());
    }
  }
  auto known = prepared_.find(sql);
  if (known == prepared_.end()) {
    known = prepared_.emplace(std::string(sql), "s" + std::to_string(++named_)).first;
    if (PQsendPrepare(conn_, known->second.c_str(), known->first.c_str(), 0, nullptr) != 1) {
      return Lose(PQerrorMessage(conn_));
    }
    sent_.push_back({known->first});
  }
  if (PQsendQueryPrepared(conn_,
                          known->second.c_str(),
                          static_cast<int>(values.size()),
                          values.data(),
                          nullptr,
                          nullptr,
                          0) != 1) {
    return Lose(PQerrorMessage(conn_));
  }
  sent_.push_back({});
  return {};
}

Result<PostgresConnection::Answer> PostgresConnection::Finish() {
  if (broken()) {
    return Fail(ErrorCode::kUnavailable, name_ + ": the connection is lost");
  }
  if (PQpipelineSync(conn_) != 1) {
    return Lose(PQerrorMessage(conn_));
  }
  Answer answer;
  std::optional<Error> failed;
  bool gap = false;  // nothing follows the answer to one statement but the next one's
  while (true) {
    TIDE_TRY(AwaitResult());
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(conn_), &PQclear);
    if (!result) {
      if (gap || PQstatus(conn_) == CONNECTION_BAD) {
        return Lose(PQerrorMessage(conn_));
      }
      gap = true;
      continue;
    }
    gap = false;
    if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      break;
    }
    Take(result.get(), answer, failed);
    if (PQstatus(conn_) == CONNECTION_BAD) {
      return Lose(failed ? failed->message : PQerrorMessage(conn_));
    }
  }
  sent_.clear();
  if (failed) {
    return std::unexpected(*failed);
  }
  return answer;
}

void PostgresConnection::Take(PGresult* result, Answer& answer, std::optional<Error>& failed) {
  const Sent sent = sent_.empty() ? Sent() : std::move(sent_.front());
  if (!sent_.empty()) {
    sent_.pop_front();
  }
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    if (!sent.prepares.empty()) {
      prepared_.erase(sent.prepares);
    }
    if (!failed && status != PGRES_PIPELINE_ABORTED) {
      failed = ErrorOf(*result);
    }
    return;
  }
  if (!sent_.empty()) {
    return;  // nobody asked for these rows
  }
  answer.tag = PQcmdStatus(result);
  const int columns = PQnfields(result);
  const int rows = PQntuples(result);
  for (int column = 0; column < columns; ++column) {
    answer.rows.columns.emplace_back(PQfname(result, column));
  }
  answer.rows.rows.reserve(static_cast<size_t>(rows));
  for (int row = 0; row < rows; ++row) {
    SqlRow& values = answer.rows.rows.emplace_back();
    values.reserve(static_cast<size_t>(columns));
    for (int column = 0; column < columns; ++column) {
      values.push_back(ValueOf(result, row, column));
    }
  }
}

Status PostgresConnection::Script(std::string_view sql) {
  if (broken()) {
    return Fail(ErrorCode::kUnavailable, name_ + ": the connection is lost");
  }
  if (PQexitPipelineMode(conn_) != 1 || PQsendQuery(conn_, std::string(sql).c_str()) != 1) {
    return Lose(PQerrorMessage(conn_));
  }
  // A script changes tables: the server refuses a plan whose rows have other columns since.
  prepared_.clear();
  std::optional<Error> failed;
  while (true) {
    TIDE_TRY(AwaitResult());
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(conn_), &PQclear);
    if (!result) {
      break;
    }
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY &&
        !failed) {
      failed = ErrorOf(*result);
    }
  }
  if (PQstatus(conn_) == CONNECTION_BAD || PQenterPipelineMode(conn_) != 1) {
    return Lose(failed ? failed->message : PQerrorMessage(conn_));
  }
  return failed ? Status(std::unexpected(*failed)) : Status();
}

// Until PQgetResult gives something without blocking; writes what is still to be sent meanwhile.
Status PostgresConnection::AwaitResult() {
  while (true) {
    const int unsent = PQflush(conn_);
    // First, as the server's last words may be there: "terminating connection due to …".
    if (PQisBusy(conn_) == 0) {
      return {};
    }
    if (unsent < 0) {
      return Lose(PQerrorMessage(conn_));
    }
    TIDE_TRY(WaitFor(static_cast<short>(unsent == 0 ? POLLIN : POLLIN | POLLOUT)));
    if (PQconsumeInput(conn_) == 0 && PQisBusy(conn_) != 0) {
      return Lose(PQerrorMessage(conn_));
    }
  }
}

Status PostgresConnection::WaitFor(short events) {
  while (true) {
    const int64_t until = deadline_ns_.value_or(heard_ns_ + kSilence.nanos());
    const int64_t left = until - MonotonicNanos();
    if (left <= 0) {
      return Lose("it did not answer in time");
    }
    pollfd socket{PQsocket(conn_), events, 0};
    constexpr int64_t kMilli = 1'000'000;
    const int ready =
        ::poll(&socket, 1, static_cast<int>(std::min<int64_t>(left / kMilli + 1, 60'000)));
    if (ready > 0) {
      heard_ns_ = MonotonicNanos();
      return {};
    }
    if (ready < 0 && errno != EINTR) {
      return Lose(FailErrno("poll", errno).error().message);
    }
  }
}

// Closes at once: a connection whose state nobody knows is of no use.
std::unexpected<Error> PostgresConnection::Lose(const std::string& text) {
  const std::string said = OneLine(text);
  PQfinish(conn_);
  conn_ = nullptr;
  sent_.clear();
  // Words that already name the database come from ErrorOf.
  if (said.starts_with(name_)) {
    return Fail(ErrorCode::kUnavailable, said);
  }
  return std::unexpected(PostgresError(name_, "", said));
}

Error PostgresConnection::ErrorOf(const PGresult& result) const {
  const auto field = [&](int which) {
    const char* text = PQresultErrorField(&result, which);
    return std::string(text == nullptr ? "" : text);
  };
  std::string text = field(PG_DIAG_MESSAGE_PRIMARY);
  for (const int which : std::array<int, 2>{PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT}) {
    if (const std::string more = field(which); !more.empty()) {
      text += "; " + more;
    }
  }
  if (text.empty()) {
    text = PQresultErrorMessage(&result);
  }
  return PostgresError(name_, field(PG_DIAG_SQLSTATE), text);
}

}  // namespace tide
