#pragma once
// One command of a person inside a task, between the HTTP requests that carry its input and output
// and the call to the agent. A thread of its own reads from the agent.
//
// Invariants:
// 1. Output is kept until it is far behind what was written to the reader: one whose connection
//    broke goes on at any offset of the last kKeptBytes.
// 2. The agent is read no further than kAheadBytes beyond the reader: a slow one slows the command.
// 3. Input is taken once, in order; a request that is repeated changes nothing.
// 4. Its end is recorded once.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/exec/audit_log.h"
#include "api/http/message.h"
#include "api/upstream/access.h"

namespace tide::api {

class ExecSession {
 public:
  static constexpr uint64_t kKeptBytes = 256U << 10U;
  static constexpr uint64_t kAheadBytes = 256U << 10U;

  // call: has reported that the command runs. record: of its start. may: whether its user still
  // may.
  ExecSession(std::unique_ptr<ExecCall> call,
              AuditRecord record,
              AuditLog& audit,
              std::function<bool()> may);
  // Ends the command, if it still runs.
  ~ExecSession();
  ExecSession(const ExecSession&) = delete;
  ExecSession& operator=(const ExecSession&) = delete;

  [[nodiscard]] const std::string& user() const { return record_.user; }

  // Frames of input; `seq` counts from 1. Errors: kInvalidArgument, kConflict for a gap or once the
  // command has ended. Any thread.
  [[nodiscard]] Status Input(uint64_t seq, std::string_view frames);

  // May output be read from `offset` on? Errors: kConflict when it is gone, or not there yet.
  [[nodiscard]] Status CheckOffset(uint64_t offset);
  // Writes frames until the last one, or until the client goes away or another reader comes. One
  // reader at a time: a newer one ends the one before.
  void CopyOutput(uint64_t offset, BodySink& sink);

  // Ends the command. why: for the record.
  void Close(const std::string& why);
  // The command runs, as far as is known. Any thread.
  [[nodiscard]] bool running();
  // Returns whether its user may still run it. One thread.
  [[nodiscard]] bool MayGoOn() const { return may_(); }
  // Nobody has read for so long, nor given input. Any thread.
  [[nodiscard]] bool IsForgotten(std::chrono::milliseconds idle);

 private:
  void Pump();
  [[nodiscard]] bool Append(const std::string& frames);
  void AppendLast(const std::optional<v1::ExecEnded>& ended, const Status& finished);
  void RecordEnd(const std::optional<v1::ExecEnded>& ended, const Status& finished);

  const std::unique_ptr<ExecCall> call_;
  AuditRecord record_;
  AuditLog& audit_;
  const std::function<bool()> may_;
  const int64_t began_;

  std::mutex input_mutex_;  // held while input goes to the agent, so that it stays in order
  uint64_t taken_seq_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string kept_;  // output from offset kept_from_ on
  uint64_t kept_from_ = 0;
  uint64_t read_to_ = 0;  // by the newest reader
  uint64_t reader_ = 0;   // counts readers
  bool reading_ = false;
  int64_t left_at_ = 0;  // by the last reader, monotonic ns
  bool complete_ = false;
  bool closed_ = false;
  std::string closed_why_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tide::api
