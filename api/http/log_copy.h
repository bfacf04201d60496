#pragma once
// Copies the output of a job's ranks from the agents to a client, over one attempt or all that
// follow. Belongs to the thread that serves the request.
//
// Memory: of each rank two pieces that were read ahead, one taken apart and one unfinished line, 64
// KiB each; a client that does not read holds back its agents and nobody else.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/http/log_query.h"
#include "api/http/log_source.h"
#include "api/http/routes.h"

namespace tide::api {

// "--- attempt 2 on n1,n2 (resumed at step 120) ---"
[[nodiscard]] std::string AttemptMarker(const tide::v1::Job& job, const tide::v1::Attempt& attempt);

class LogCopy {
 public:
  LogCopy(App& app, uint64_t job_id, LogQuery query);
  ~LogCopy();
  LogCopy(const LogCopy&) = delete;
  LogCopy& operator=(const LogCopy&) = delete;

  // Reads the first piece, so that a log nobody can read is an error of the request and not a line
  // in its body. With `follow` it waits less, and for what may still come.
  Status Open();
  // Where the body begins in the rank's output, if that was learned.
  [[nodiscard]] std::optional<uint64_t> start_offset() const { return start_offset_; }
  void Run(BodySink& sink);

 private:
  class Merge;

  [[nodiscard]] std::unique_ptr<LogSource> MakeSource(uint64_t epoch, uint32_t rank) const;
  [[nodiscard]] std::optional<uint64_t> FirstAttempt(const tide::v1::Job& job) const;
  // False when the client is gone.
  bool CopyAttempt(uint64_t epoch, BodySink& sink);
  bool CopyBytes(LogSource& source, BodySink& sink);
  bool Line(const std::string& text, BodySink& sink);
  // The attempt after `epoch`; nothing when the job ends without one or the client is gone.
  [[nodiscard]] std::optional<uint64_t> NextAttempt(uint64_t epoch, BodySink& sink) const;

  App& app_;
  const uint64_t job_id_;
  const LogQuery query_;
  int64_t tail_;  // of the attempt being copied
  bool at_line_start_ = true;
  std::unique_ptr<LogSource> opened_;  // by Open()
  std::optional<uint64_t> start_offset_;
  std::shared_ptr<LogArrivals> arrivals_ = std::make_shared<LogArrivals>();
};

}  // namespace tide::api
