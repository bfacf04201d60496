#pragma once
// How the output of a rank lies on disk: segments, each a log and its index. See
// docs/rank-protocol.md section 3. Shared by tide-init, which writes, and the agent, which reads.
//
// Invariants:
// 1. A segment is named by the offset of its first byte, so that offsets never change: the first is
//    rank-NNNNN, a later one rank-NNNNN.<20 digits>. Nothing is ever renamed.
// 2. A segment ends where the next one begins: that one is created after the last byte was written.
// 3. Only the oldest segment is ever deleted, its log last: what has a log is there.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

inline constexpr uint32_t kStdoutStream = 1;
inline constexpr uint32_t kStderrStream = 2;

// One entry of an index: these bytes were written then.
struct LogRecord {
  uint64_t offset = 0;
  int64_t at = 0;  // unix ns
  uint32_t length = 0;
  uint32_t stream = 0;
  [[nodiscard]] uint64_t end() const { return offset + length; }
  bool operator==(const LogRecord&) const = default;
};
inline constexpr size_t kLogRecordBytes = 24;
static_assert(sizeof(LogRecord) == kLogRecordBytes);  // it is the file's format, little endian

struct LogSegment {
  uint64_t base = 0;  // offset of its first byte
  std::string log;    // path
  std::string index;  // path; the file may not be there
  bool operator==(const LogSegment&) const = default;
};

[[nodiscard]] LogSegment MakeLogSegment(const std::string& folder, uint32_t rank, uint64_t base);
// Those that are there, the oldest first. No folder is no segment.
[[nodiscard]] Result<std::vector<LogSegment>> ListLogSegments(const std::string& folder,
                                                              uint32_t rank);
// Index first, so that a crash in between leaves a segment that is listed and deleted next time.
[[nodiscard]] Status DeleteLogSegment(const LogSegment& segment);

}  // namespace tide::agent
