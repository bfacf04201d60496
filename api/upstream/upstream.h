#pragma once
// What tide-api needs from the rest of the cluster. Routes see these interfaces only.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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
  virtual Result<tide::v1::Job> Archived(uint64_t job_id) = 0;
  // Both return the revision that shows the change.
  virtual Result<uint64_t> Control(const tide::v1::ControlJobRequest& request) = 0;
  virtual Result<uint64_t> Control(const tide::v1::ControlNodeRequest& request) = 0;
};

struct LogPlace {
  std::string endpoint;
  uint64_t job_id = 0;
  uint64_t epoch = 0;
  uint32_t task = 0;
  uint32_t rank = 0;  // as the training script sees it
};

struct LogRange {
  uint64_t offset = 0;
  int64_t tail_lines = -1;  // >= 0: that many lines before the end instead of `offset`
  bool follow = false;
};

enum class LogEvent {
  kData,
  kEnd,     // everything was sent
  kError,   // `error` says what
  kNothing  // nothing came within the time
};

struct LogPiece {
  LogEvent event = LogEvent::kNothing;
  uint64_t offset = 0;
  std::string data;
  Error error;
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
