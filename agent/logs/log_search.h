#pragma once
// Searches the output of a rank block by block, so that its caller may stop at any time.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/logs/line_matcher.h"
#include "agent/logs/log_file.h"

namespace tide::agent {

struct FoundLine {
  uint64_t offset = 0;  // of its first byte
  uint64_t next = 0;    // of the line after it
  int64_t at = 0;       // of its first byte; 0 = not known
  uint32_t stream = 0;
  std::string text;  // without newline; cut after kMaxFoundLine
};

class LogSearch {
 public:
  static constexpr size_t kBlockBytes = 1U << 20U;
  static constexpr size_t kMaxFoundLine = 4096;

  // Searches from `begin`, the beginning of a line. Both must outlive it.
  LogSearch(LogFile& log, const LineMatcher& matcher, uint64_t begin)
      : log_(log), matcher_(matcher), begin_(begin) {}

  // Looks at the next block below `end` and adds what it finds, at most `most` lines. An unfinished
  // last line waits for its end unless `to_the_end`. Returns false when there is nothing more.
  // A line longer than a block counts as several.
  [[nodiscard]] Result<bool> Step(uint64_t end,
                                  bool to_the_end,
                                  size_t most,
                                  std::vector<FoundLine>& found);
  // Every line before was looked at.
  [[nodiscard]] uint64_t offset() const { return begin_ + used_; }
  // Goes on there: what lay before was deleted.
  void SkipTo(uint64_t offset);

 private:
  // Reads on until the buffer is full or `end` is reached. Returns false when nothing came.
  Result<bool> Fill(uint64_t end);
  Status Add(size_t begin, size_t end, std::vector<FoundLine>& found);

  LogFile& log_;
  const LineMatcher& matcher_;
  uint64_t begin_;  // offset of the buffer's first byte
  std::string buffer_;
  size_t used_ = 0;  // of the buffer: these bytes were looked at
};

}  // namespace tide::agent
