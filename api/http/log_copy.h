#pragma once
// Copies the output of a job's ranks from the agents to a client, over one attempt or all that
// follow. Belongs to the thread that serves the request.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/http/routes.h"

namespace tide::api {

struct LogQuery {
  std::optional<uint32_t> rank;     // nothing = all ranks
  std::optional<uint64_t> attempt;  // nothing = the newest, and with `follow` all after it
  int64_t tail = -1;                // lines; -1 = from the start
  bool follow = false;
};

// "--- attempt 2 on n1,n2 (resumed at step 120) ---"
[[nodiscard]] std::string AttemptMarker(const tide::v1::Job& job, const tide::v1::Attempt& attempt);

class LogCopy {
 public:
  LogCopy(App& app, uint64_t job_id, LogQuery query);
  ~LogCopy();
  LogCopy(const LogCopy&) = delete;
  LogCopy& operator=(const LogCopy&) = delete;

  // Reads the first piece of a copy that does not follow, so that a log nobody can read is an
  // error of the request and not a line in its body.
  Status Open();
  void Run(BodySink& sink);

 private:
  struct Rank;
  struct Where;  // a rank's place as the view has it now

  [[nodiscard]] std::shared_ptr<const JobRow> Job() const;
  [[nodiscard]] std::vector<uint32_t> RanksOf(const tide::v1::Job& job) const;
  [[nodiscard]] Result<Where> Find(uint64_t epoch, uint32_t rank) const;

  bool CopyAttempt(uint64_t epoch, BodySink& sink);
  bool CopyRank(Rank& rank, BodySink& sink, std::chrono::milliseconds wait, bool& busy);
  bool Emit(Rank& rank, const std::string& data, BodySink& sink);
  bool HandleError(Rank& rank, const Error& error, BodySink& sink);
  bool Line(const std::string& text, BodySink& sink);
  Result<Where> OpenRank(Rank& rank);
  // The attempt after `epoch`; nothing when the job ends without one or the client is gone.
  [[nodiscard]] std::optional<uint64_t> NextAttempt(uint64_t epoch, BodySink& sink) const;

  App& app_;
  const uint64_t job_id_;
  const LogQuery query_;
  int64_t tail_;  // of the attempt being copied
  bool at_line_start_ = true;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tide::api
