#pragma once
// One connection to a PostgreSQL server, in libpq's pipeline mode: statements are sent without
// waiting, Finish waits for all answers. One thread at a time.
// Invariants:
//  1 no call waits past the deadline; after one that would have, the connection is closed.
//  2 reads while it writes, so full socket buffers never lock client and server against each other.
//  3 a connection that failed stays failed: what it did last is for the caller to find out.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "scheduler/store/database.h"

struct pg_conn;    // libpq-fe.h
struct pg_result;  // libpq-fe.h

namespace tide {

class PostgresConnection {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;

  // Connects, refuses servers that cannot keep Tide's promises, and prepares the session.
  //   deadline_ns: of MonotonicNanos().
  //   Errors: those of PostgresError; kInvalidArgument for an option that libpq does not take.
  [[nodiscard]] static Result<std::unique_ptr<PostgresConnection>> Open(const Parameters& server,
                                                                        int64_t deadline_ns);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  // Until when the calls below may wait. Without one they wait while the server says something at
  // least every kSilence: reading everything back takes as long as it takes.
  void SetDeadline(std::optional<int64_t> deadline_ns);

  // Puts a statement behind those already sent. Its text is prepared when first seen.
  //   Errors: kUnavailable; kInvalidArgument for text with a NUL byte.
  [[nodiscard]] Status Send(std::string_view sql, std::span<const SqlValue> params);

  struct Answer {
    SqlRows rows;     // of the last statement sent
    std::string tag;  // "COMMIT", "INSERT 0 1"
  };
  // Waits for the answers to all that was sent. After an error the server has skipped the
  // statements behind it.
  [[nodiscard]] Result<Answer> Finish();

  // Statements without parameters, several of them: not while others wait for Finish.
  [[nodiscard]] Status Script(std::string_view sql);

  [[nodiscard]] size_t unfinished() const { return sent_.size(); }
  [[nodiscard]] bool broken() const { return conn_ == nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // Warnings of the server since the start of this connection.
  [[nodiscard]] uint64_t warnings() const { return warnings_; }

  static constexpr Duration kSilence = Duration::Seconds(60);

 private:
  PostgresConnection() = default;

  // What Send has sent: a preparation of `prepares`, or (empty) a statement.
  struct Sent {
    std::string prepares;
  };

  Status Connect(const Parameters& server);
  Status CheckServer();
  // Waits for the socket: 1 = readable, 2 = writable.
  Status WaitFor(short events);
  Status AwaitResult();
  [[nodiscard]] std::unexpected<Error> Lose(const std::string& text);
  [[nodiscard]] Error ErrorOf(const pg_result& result) const;
  void Take(pg_result* result, Answer& answer, std::optional<Error>& failed);

  pg_conn* conn_ = nullptr;
  std::string name_;
  std::optional<int64_t> deadline_ns_;
  int64_t heard_ns_ = 0;
  std::deque<Sent> sent_;
  std::map<std::string, std::string, std::less<>> prepared_;  // text → name
  uint64_t named_ = 0;
  uint64_t warnings_ = 0;
};

}  // namespace tide
