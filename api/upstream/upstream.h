#pragma once
// What tide-api needs from the rest of the cluster. Routes see these interfaces only.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/upstream/agent_place.h"
#include "common/base/result.h"
#include "common/spec/job_spec.h"
#include "tide/v1/scheduler.pb.h"

namespace tide::api {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Errors: what the scheduler says, or kUnavailable when it does not answer.
  virtual Result<tide::v1::SubmitJobResponse> Submit(const tide::v1::SubmitJobRequest& request) = 0;
  // What Submit would do now; changes nothing.
  virtual Result<tide::v1::PlanJobResponse> Plan(const tide::v1::PlanJobRequest& request) = 0;
  // A job that the view shows no more. Errors: also kNotFound.
  virtual Result<tide::v1::Job> Archived(const tide::v1::GetArchivedJobRequest& request) = 0;
  // What the ranks of a running job are at.
  virtual Result<tide::v1::GetRanksResponse> Ranks(const tide::v1::GetRanksRequest& request) = 0;
  // Both return the revision that shows the change.
  virtual Result<uint64_t> Control(const tide::v1::ControlJobRequest& request) = 0;
  virtual Result<uint64_t> Control(const tide::v1::ControlNodeRequest& request) = 0;
  // Secrets of a user. Errors: also kNotFound where there is none to remove.
  virtual Result<tide::v1::SecretEntry> SetSecret(const tide::v1::SetSecretRequest& request) = 0;
  virtual Result<tide::v1::ListSecretsResponse> ListSecrets(
      const tide::v1::ListSecretsRequest& request) = 0;
  virtual Status RemoveSecret(const tide::v1::RemoveSecretRequest& request) = 0;
  // Users, projects, tokens.
  virtual Result<tide::v1::ChangePeopleResponse> ChangePeople(
      const tide::v1::ChangePeopleRequest& request) = 0;
  virtual Status RecordAudit(const tide::v1::RecordAuditRequest& request) = 0;
  virtual Result<tide::v1::ReadAuditResponse> ReadAudit(
      const tide::v1::ReadAuditRequest& request) = 0;
};

struct LogPlace {
  AgentPlace agent;
  uint64_t job_id = 0;
  uint64_t epoch = 0;
  uint32_t task = 0;
  uint32_t rank = 0;  // as the training script sees it
};

// Wakes who waits for the first of several logs. Threads may share it.
class LogArrivals {
 public:
  void Notify() {
    {
      const std::scoped_lock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  // Returns the count once it is not `seen` any more, or after `timeout`.
  uint64_t WaitBeyond(uint64_t seen, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return count_ != seen; });
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

struct LogPattern {
  std::string text;  // "" = every byte, and not lines
  bool literal = false;
  bool ignore_case = false;
  bool operator==(const LogPattern&) const = default;
};

struct LogRange {
  uint64_t offset = 0;
  int64_t tail_lines = -1;  // >= 0: that many lines before the end instead of `offset`
  bool follow = false;
  // Lines that began at `since` or later and before `until`, unix ns; 0 = no bound.
  int64_t since = 0;
  int64_t until = 0;
  bool marks = false;
  LogPattern grep = {};
  size_t read_ahead = 16;                           // pieces kept of a slow client's log
  std::shared_ptr<LogArrivals> arrivals = nullptr;  // told of each piece
};

enum class LogEvent {
  kData,
  kEnd,     // everything was sent
  kError,   // `error` says what
  kNothing  // nothing came within the time
};

// The bytes from `begin` on were written at `at`, up to the next mark.
struct LogMark {
  size_t begin = 0;
  int64_t at = 0;  // unix ns by the node's clock; 0 = not known
};

struct LogPiece {
  LogEvent event = LogEvent::kNothing;
  uint64_t offset = 0;  // of data's first byte
  std::string data;
  Error error;
  std::vector<LogMark> marks;
  uint64_t next = 0;       // offset to go on at
  uint64_t removed = 0;    // bytes before `offset` that were asked for and are kept no more
  bool caught_up = false;  // all that was there when the reading began has come
  bool cut = false;        // more lines match than one call gives
};

// One log being read. Destroying it ends the call.
class LogReader {
 public:
  virtual ~LogReader() = default;
  virtual LogPiece Next(std::chrono::milliseconds timeout) = 0;
};

class Agents {
 public:
  virtual ~Agents() = default;
  virtual std::unique_ptr<LogReader> ReadLog(const LogPlace& place, const LogRange& range) = 0;
};

}  // namespace tide::api
