#pragma once
// Reads the output of one rank: its segments as one run of bytes, and when each was written.
//
// Threads: belongs to one. The supervisor may append, begin segments and delete old ones meanwhile.
// Invariants:
// 1. An offset names the same byte for ever, or none any more.
// 2. No memory is mapped: a file that somebody cuts short costs an error and not the process.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/runtime/log_segments.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

class LogFile {
 public:
  // folder: the task's logs/.
  LogFile(std::string folder, uint32_t rank) : folder_(std::move(folder)), rank_(rank) {}

  // Looks which segments there are. Everything below answers for what was there then, but for bytes
  // that were appended since. Errors: the folder cannot be read.
  [[nodiscard]] Status Refresh();
  // Has the rank written anything yet?
  [[nodiscard]] bool exists() const { return !segments_.empty(); }
  // The oldest byte that is still there.
  [[nodiscard]] uint64_t begin() const { return segments_.empty() ? 0 : segments_.front().base; }
  // The first byte at `offset` or later of which more than nothing may be there: for who found that
  // the one at `offset` is not.
  [[nodiscard]] uint64_t After(uint64_t offset) const;
  // Past the newest byte; past the newest one that has a record.
  [[nodiscard]] Result<uint64_t> End();
  [[nodiscard]] Result<uint64_t> RecordedEnd();

  // Reads from `offset` on, from one segment: fewer bytes than `out` takes do not mean the end, 0
  // does. Errors: kNotFound when these bytes are there no more: Refresh, and go on at After().
  [[nodiscard]] Result<size_t> Read(uint64_t offset, std::span<char> out);
  // The records that touch [from, to), in order, of the segment that holds `from`; at most `most`.
  // Cost: O(log records) reads and one.
  [[nodiscard]] Result<std::vector<LogRecord>> Records(uint64_t from, uint64_t to, size_t most);

  // Where the last `lines` lines begin.
  [[nodiscard]] Result<uint64_t> FindTail(int64_t lines);
  // Where the first line begins whose first byte was written at `at` or later; End() if none was.
  // A clock that was set back is not noticed: the answer is then one of the possible ones.
  [[nodiscard]] Result<uint64_t> FindTime(int64_t at);

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // Index of the segment that holds `offset`, or ends with it.
  [[nodiscard]] size_t SegmentOf(uint64_t offset) const;
  // Opens it, unless it is open already.
  Status Open(size_t segment);
  [[nodiscard]] Result<uint64_t> RecordCount(size_t segment);
  [[nodiscard]] Result<std::vector<LogRecord>> ReadRecords(size_t segment,
                                                           uint64_t first,
                                                           size_t count);
  // The first record of the segment for which `before` is false.
  template <typename Before>
  [[nodiscard]] Result<uint64_t> Partition(size_t segment, uint64_t count, Before before);
  [[nodiscard]] Result<uint64_t> RecordAt(int64_t at);
  [[nodiscard]] Result<uint64_t> LineFrom(uint64_t offset);

  const std::string folder_;
  const uint32_t rank_;
  std::vector<LogSegment> segments_;
  // One pair of descriptors: readers go through segments in order.
  uint64_t open_base_ = 0;
  Fd log_;
  Fd index_;
};

}  // namespace tide::agent
