#pragma once
// The output of one rank in one attempt, read from whichever agent has it, over broken connections
// and agents that begin anew. Belongs to the thread that serves the request.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/http/routes.h"

namespace tide::api {

// Null when the view does not have the job.
[[nodiscard]] std::shared_ptr<const JobRow> FindJob(const App& app, uint64_t job_id);
[[nodiscard]] const tide::v1::Attempt* FindAttempt(const tide::v1::Job& job, uint64_t epoch);

class LogSource {
 public:
  // range: of the first call; later ones go on where that one ended.
  LogSource(App& app, uint64_t job_id, uint64_t epoch, uint32_t rank, LogRange range);
  ~LogSource();
  LogSource(const LogSource&) = delete;
  LogSource& operator=(const LogSource&) = delete;

  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] int64_t asked() const { return asked_; }
  [[nodiscard]] bool caught_up() const { return caught_up_; }

  // Begins to read and takes the first piece, for the next Next(). Errors: there is nothing to
  // read, or `wait` was long enough to learn why not.
  Result<LogPiece> Peek(std::chrono::milliseconds wait);
  // What comes within `wait`. kEnd and kError are the last: what can pass is tried again here.
  LogPiece Next(std::chrono::milliseconds wait);

 private:
  struct Where;  // its place as the view has it now

  [[nodiscard]] Result<Where> Find() const;
  Result<Where> Open();
  LogPiece OnEnd();
  LogPiece OnError(const Error& error);
  LogPiece OnSilence();
  // Reports whether nothing has come for too long; counts from its first call after data.
  bool IsQuietForLong();
  [[nodiscard]] bool IsYetToCome(const Error& error) const;
  LogPiece Last(LogEvent event, const Error& error);
  LogPiece TryLater(int64_t nanos);

  App& app_;
  const uint64_t job_id_;
  const uint64_t epoch_;
  const uint32_t rank_;
  const LogRange range_;
  std::unique_ptr<LogReader> reader_;
  std::optional<LogPiece> peeked_;
  std::optional<uint64_t> next_offset_;  // once something was read
  int64_t retry_at_ = 0;                 // monotonic ns
  int64_t quiet_since_ = 0;              // since the task was seen to be over, monotonic ns
  int64_t asked_ = 0;                    // monotonic ns
  bool caught_up_ = false;
  bool exited_before_ = false;   // the task was over before `reader_` began
  bool started_before_ = false;  // the task had been started before `reader_` began
  bool ended_ = false;           // nothing came since the agent said that it is all
  bool done_ = false;
};

}  // namespace tide::api
