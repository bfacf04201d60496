#include "agent/logs/log_block.h"

#include <algorithm>

namespace tide::agent {
namespace {

// Records are of a byte at least, and mostly of more: rarely does this cut a block.
constexpr size_t kMaxMarks = 4096;

Status Mark(LogFile& log, LogBlock& block) {
  const uint64_t end = block.offset + block.data.size();
  TIDE_ASSIGN(const std::vector<LogRecord> records, log.Records(block.offset, end, kMaxMarks));
  for (const LogRecord& record : records) {
    const uint64_t begin = std::max(record.offset, block.offset);
    block.marks.push_back({static_cast<uint32_t>(begin - block.offset), record.at, record.stream});
  }
  if (records.size() == kMaxMarks) {
    block.data.resize(std::min<uint64_t>(end, records.back().end()) - block.offset);
  }
  return {};
}

}  // namespace

Result<LogBlock> ReadBlock(LogFile& log, uint64_t offset, uint64_t end, bool marks) {
  LogBlock block{.offset = offset, .data = {}, .marks = {}};
  if (end <= offset) {
    return block;
  }
  block.data.resize(std::min<uint64_t>(end - offset, kMaxBlockBytes));
  TIDE_ASSIGN(const size_t n, log.Read(offset, block.data));
  block.data.resize(n);
  if (marks && n > 0) {
    TIDE_TRY(Mark(log, block));
  }
  return block;
}

}  // namespace tide::agent
