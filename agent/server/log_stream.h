#pragma once
// Answers one call of ReadLog: all bytes of a rank's output from somewhere on, or the lines that
// match, up to now or for as long as the task writes.
//
// Threads: belongs to the one that serves the call.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/logs/line_matcher.h"
#include "agent/logs/log_file.h"
#include "agent/logs/log_search.h"
#include "agent/logs/log_watch.h"
#include "common/base/result.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

// What a call needs from around it.
struct LogCall {
  std::string folder;                                   // the task's logs/
  std::string name;                                     // "rank 3 of task 7.1.0", for errors
  std::function<bool()> is_over;                        // has the task written all it ever will?
  std::function<bool()> cancelled;                      // has the client left?
  std::function<bool(const tide::v1::LogChunk&)> send;  // false: the client has left
};

class LogStream {
 public:
  static constexpr uint64_t kDefaultMaxLines = 10'000;

  LogStream(LogCall call, const tide::v1::ReadLogRequest& request);
  // Returns when all was sent or the client has left. Errors: kNotFound when nothing of this rank
  // is here and nobody wants to wait for it; kInvalidArgument of the pattern.
  [[nodiscard]] Status Run();

 private:
  // What one look at the log has come to.
  enum class Turn {
    kSent,
    kNothing,
    kOver
  };

  Status Begin();
  [[nodiscard]] Result<uint64_t> FirstByte();
  // The bytes below this may be sent now.
  [[nodiscard]] Result<uint64_t> Limit(bool over);
  [[nodiscard]] Result<Turn> Look(bool over);
  [[nodiscard]] Result<Turn> SendBytes(uint64_t limit);
  [[nodiscard]] Result<Turn> SendMatches(LogSearch& search, uint64_t limit, bool to_the_end);
  [[nodiscard]] Turn Send(const std::vector<FoundLine>& lines, bool cut);
  [[nodiscard]] bool Tail(std::vector<FoundLine>& lines, bool more);
  Status SkipRemoved();
  [[nodiscard]] uint64_t offset() const { return search_ ? search_->offset() : offset_; }
  [[nodiscard]] bool SayCaughtUp();

  const LogCall call_;
  const tide::v1::ReadLogRequest& request_;
  LogFile log_;
  std::optional<LineMatcher> matcher_;
  std::optional<LogSearch> search_;  // once begun, of a call that searches
  std::deque<FoundLine> tail_;       // the last lines that were found, where only they are wanted
  bool tailing_ = false;
  bool begun_ = false;
  bool caught_up_ = false;
  uint64_t offset_ = 0;  // of the next byte to send
  uint64_t end_ = UINT64_MAX;
  uint64_t removed_ = 0;          // not told yet
  uint64_t lines_left_ = 0;       // of a search
  int64_t unrecorded_since_ = 0;  // monotonic ns; 0 = every byte has a record
};

}  // namespace tide::agent
