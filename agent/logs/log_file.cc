#include "agent/logs/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tide::agent {
namespace {

constexpr size_t kBlockBytes = 64U << 10U;

Result<uint64_t> SizeOf(const Fd& fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return FailErrno("cannot look at " + path, errno);
  }
  return static_cast<uint64_t>(info.st_size);
}

// O_NOFOLLOW: the folder is the agent's own, so a link in it is nobody's output.
Fd OpenToRead(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

Result<size_t> ReadAt(const Fd& fd, std::span<char> out, uint64_t at, const std::string& path) {
  while (true) {
    const ssize_t n = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (n >= 0) {
      return static_cast<size_t>(n);
    }
    if (errno != EINTR) {
      return FailErrno("cannot read " + path, errno);
    }
  }
}

}  // namespace

Status LogFile::Refresh() {
  TIDE_ASSIGN(segments_, ListLogSegments(folder_, rank_));
  return {};
}

size_t LogFile::SegmentOf(uint64_t offset) const {
  const auto after = std::ranges::upper_bound(segments_, offset, {}, &LogSegment::base);
  return after == segments_.begin() ? kNone : static_cast<size_t>(after - segments_.begin()) - 1;
}

uint64_t LogFile::After(uint64_t offset) const {
  const auto next = std::ranges::upper_bound(segments_, offset, {}, &LogSegment::base);
  return next == segments_.end() ? offset : next->base;
}

Status LogFile::Open(size_t segment) {
  const LogSegment& wanted = segments_[segment];
  if (log_.valid() && open_base_ == wanted.base) {
    if (!index_.valid()) {
      index_ = OpenToRead(wanted.index);  // it is created after the log
    }
    return {};
  }
  Fd log = OpenToRead(wanted.log);
  if (!log.valid()) {
    if (errno == ENOENT) {
      return Fail(ErrorCode::kNotFound, wanted.log + " is kept no more");
    }
    return FailErrno("cannot read " + wanted.log, errno);
  }
  log_ = std::move(log);
  index_ = OpenToRead(wanted.index);
  open_base_ = wanted.base;
  return {};
}

Result<uint64_t> LogFile::End() {
  if (segments_.empty()) {
    return 0;
  }
  TIDE_TRY(Open(segments_.size() - 1));
  TIDE_ASSIGN(const uint64_t size, SizeOf(log_, segments_.back().log));
  return segments_.back().base + size;
}

Result<uint64_t> LogFile::RecordedEnd() {
  if (segments_.empty()) {
    return 0;
  }
  // A segment is begun after the one before it was written and recorded, or could not be: then
  // these bytes are as good as recorded.
  const size_t newest = segments_.size() - 1;
  TIDE_ASSIGN(const uint64_t count, RecordCount(newest));
  if (count == 0) {
    return segments_[newest].base;
  }
  TIDE_ASSIGN(const std::vector<LogRecord> last, ReadRecords(newest, count - 1, 1));
  return last.empty() ? segments_[newest].base : last.front().end();
}

Result<size_t> LogFile::Read(uint64_t offset, std::span<char> out) {
  const size_t segment = SegmentOf(offset);
  if (segment == kNone) {
    return Fail(ErrorCode::kNotFound,
                "byte " + std::to_string(offset) + " of this log is kept no more");
  }
  TIDE_TRY(Open(segment));
  const LogSegment& from = segments_[segment];
  if (segment + 1 < segments_.size()) {
    out = out.first(std::min<uint64_t>(out.size(), segments_[segment + 1].base - offset));
  }
  TIDE_ASSIGN(const size_t n, ReadAt(log_, out, offset - from.base, from.log));
  if (n == 0 && !out.empty() && segment + 1 < segments_.size()) {
    // The machine died before this segment was on the disk, and the next one was.
    return Fail(ErrorCode::kNotFound, "the end of " + from.log + " is lost");
  }
  return n;
}

Result<uint64_t> LogFile::RecordCount(size_t segment) {
  TIDE_TRY(Open(segment));
  if (!index_.valid()) {
    return 0;
  }
  TIDE_ASSIGN(const uint64_t size, SizeOf(index_, segments_[segment].index));
  return size / kLogRecordBytes;
}

Result<std::vector<LogRecord>> LogFile::ReadRecords(size_t segment, uint64_t first, size_t count) {
  std::vector<LogRecord> records(count);
  TIDE_ASSIGN(const size_t n,
              ReadAt(index_,
                     // The file holds these very bytes (log_segments.h).
                     {reinterpret_cast<char*>(records.data()), count * kLogRecordBytes},
                     first * kLogRecordBytes,
                     segments_[segment].index));
  records.resize(n / kLogRecordBytes);
  return records;
}

template <typename Before>
Result<uint64_t> LogFile::Partition(size_t segment, uint64_t count, Before before) {
  uint64_t low = 0;
  uint64_t high = count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    TIDE_ASSIGN(const std::vector<LogRecord> record, ReadRecords(segment, middle, 1));
    if (!record.empty() && before(record.front())) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Result<std::vector<LogRecord>> LogFile::Records(uint64_t from, uint64_t to, size_t most) {
  const size_t segment = SegmentOf(from);
  if (segment == kNone) {
    return std::vector<LogRecord>{};
  }
  TIDE_ASSIGN(const uint64_t count, RecordCount(segment));
  TIDE_ASSIGN(const uint64_t first, Partition(segment, count, [from](const LogRecord& record) {
                return record.end() <= from;
              }));
  std::vector<LogRecord> records;
  if (first < count) {
    // A record is of one byte at least.
    const uint64_t room = std::min<uint64_t>(std::min<uint64_t>(most, to - from), count - first);
    TIDE_ASSIGN(records, ReadRecords(segment, first, room));
  }
  const auto after = std::ranges::lower_bound(records, to, {}, &LogRecord::offset);
  records.erase(after, records.end());
  return records;
}

Result<uint64_t> LogFile::FindTail(int64_t lines) {
  TIDE_ASSIGN(const uint64_t size, End());
  std::string buffer;
  uint64_t end = size;
  int64_t seen = -1;  // the newline that ends the last line does not count
  while (end > begin()) {
    const size_t segment = SegmentOf(end - 1);
    const uint64_t from =
        std::max(segments_[segment].base, end > kBlockBytes ? end - kBlockBytes : 0);
    buffer.resize(end - from);
    const auto read = Read(from, buffer);
    if (!read || *read < buffer.size()) {
      return end;  // deleted meanwhile: what comes after is the oldest that there is
    }
    for (size_t i = buffer.size(); i > 0; --i) {
      const uint64_t at = from + i - 1;
      if (buffer[i - 1] == '\n') {
        ++seen;
      } else if (at == size - 1) {
        seen = 0;  // an unfinished last line is a line
      }
      if (seen >= lines) {
        return at + 1;
      }
    }
    end = from;
  }
  return begin();
}

Result<uint64_t> LogFile::RecordAt(int64_t at) {
  const auto before = [at](const LogRecord& record) { return record.at < at; };
  for (size_t segment = 0; segment < segments_.size(); ++segment) {
    const auto count = RecordCount(segment);
    if (!count && count.error().code == ErrorCode::kNotFound) {
      continue;  // deleted meanwhile
    }
    TIDE_TRY(count);
    if (*count == 0) {
      continue;
    }
    TIDE_ASSIGN(const std::vector<LogRecord> last, ReadRecords(segment, *count - 1, 1));
    if (last.empty() || before(last.front())) {
      continue;
    }
    TIDE_ASSIGN(const uint64_t found, Partition(segment, *count, before));
    TIDE_ASSIGN(const std::vector<LogRecord> record, ReadRecords(segment, found, 1));
    return record.empty() ? End() : Result<uint64_t>(record.front().offset);
  }
  return End();
}

// The next line's beginning at `offset` or later.
Result<uint64_t> LogFile::LineFrom(uint64_t offset) {
  if (offset <= begin()) {
    return offset;
  }
  std::array<char, 4096> buffer{};
  for (uint64_t at = offset - 1;;) {
    TIDE_ASSIGN(const size_t n, Read(at, buffer));
    if (n == 0) {
      return at;
    }
    if (const void* newline = std::memchr(buffer.data(), '\n', n)) {
      return at + static_cast<uint64_t>(static_cast<const char*>(newline) - buffer.data()) + 1;
    }
    at += n;
  }
}

Result<uint64_t> LogFile::FindTime(int64_t at) {
  TIDE_ASSIGN(const uint64_t offset, RecordAt(at));
  return LineFrom(offset);
}

}  // namespace tide::agent
