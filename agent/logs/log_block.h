#pragma once
// A piece of a rank's output, and when its parts were written.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/logs/log_file.h"

namespace tide::agent {

// From `begin` on, up to the next mark.
struct LogMark {
  uint32_t begin = 0;   // in the piece's data
  int64_t at = 0;       // unix ns; 0 = not known
  uint32_t stream = 0;  // 0 = not known
  bool operator==(const LogMark&) const = default;
};

struct LogBlock {
  uint64_t offset = 0;
  std::string data;
  std::vector<LogMark> marks;  // empty unless asked for
};

inline constexpr size_t kMaxBlockBytes = 64U << 10U;

// What lies in [offset, end), at most kMaxBlockBytes of it; nothing at the end of what there is.
// Errors: those of LogFile::Read.
[[nodiscard]] Result<LogBlock> ReadBlock(LogFile& log, uint64_t offset, uint64_t end, bool marks);

}  // namespace tide::agent
