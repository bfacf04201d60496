#pragma once
// Takes the output of a rank apart into lines that know when they began. Pure.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "api/upstream/upstream.h"

namespace tide::api {

struct LogLine {
  int64_t at = 0;    // when its first byte was written, unix ns; 0 = not known
  std::string text;  // without newline
};

class LineSplitter {
 public:
  // A longer line counts as several.
  static constexpr size_t kLongestLine = 64U << 10U;

  void Add(const LogPiece& piece);
  // What has no newline yet is a line, too: nothing follows.
  void End();

  [[nodiscard]] bool empty() const { return lines_.empty(); }
  [[nodiscard]] const LogLine& front() const { return lines_.front(); }
  LogLine Take();

 private:
  void AddPart(std::string_view data, int64_t at);

  std::deque<LogLine> lines_;
  LogLine open_;  // the unfinished last line
  bool has_open_ = false;
  int64_t last_at_ = 0;  // of the last mark
};

}  // namespace tide::api
