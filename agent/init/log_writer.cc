#include "agent/init/log_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr size_t kMaxQueuedBytes = 32U << 20U;
constexpr size_t kMaxChunkBytes = 256U << 10U;
// Output of one rank that comes in small pieces shares one index record within this time.
constexpr int64_t kMergeNanos = 20'000'000;
// Of what is kept of a rank goes a part at a time.
constexpr uint64_t kSegments = 8;
constexpr uint64_t kLeastSegment = 64U << 10U;
constexpr uint64_t kMostSegment = 256U << 20U;

Result<Fd> OpenForAppend(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return FailErrno("cannot create " + path, errno);
  }
  return fd;
}

}  // namespace

LogWriter::LogWriter(std::string folder, uint64_t max_bytes)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      segment_bytes_(
          max_bytes == 0 ? 0 : std::clamp(max_bytes / kSegments, kLeastSegment, kMostSegment)) {}

Result<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& folder,
                                                   const std::vector<uint32_t>& ranks,
                                                   uint64_t max_bytes) {
  TIDE_TRY(MakeDirs(folder));
  std::unique_ptr<LogWriter> writer(new LogWriter(folder, max_bytes));
  for (const uint32_t rank : ranks) {
    File file;
    file.rank = rank;
    TIDE_TRY(writer->OpenFile(file));
    writer->files_.push_back(std::move(file));
  }
  writer->dropped_.resize(ranks.size());
  return writer;
}

Status LogWriter::OpenFile(File& file) {
  TIDE_ASSIGN(const std::vector<LogSegment> found, ListLogSegments(folder_, file.rank));
  for (const LogSegment& names : found) {
    Segment segment{names};
    for (const std::string& path : {names.log, names.index}) {
      struct stat info{};
      segment.bytes += ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
    }
    file.segments.push_back(segment);
  }
  if (file.segments.empty()) {
    file.segments.push_back({.names = MakeLogSegment(folder_, file.rank, 0)});
    return {};  // begun with the first output: many short tasks have none
  }
  TIDE_ASSIGN(file.log, OpenForAppend(file.segments.back().names.log));
  TIDE_ASSIGN(file.index, OpenForAppend(file.segments.back().names.index));
  return FindEnd(file);
}

Status LogWriter::FindEnd(File& file) {
  const LogSegment& names = file.segments.back().names;
  struct stat log{};
  struct stat index{};
  if (::fstat(file.log.get(), &log) != 0 || ::fstat(file.index.get(), &index) != 0) {
    return FailErrno("cannot look at " + names.log, errno);
  }
  file.end = names.base + static_cast<uint64_t>(log.st_size);
  file.indexed = names.base;
  file.records = static_cast<uint64_t>(index.st_size) / kLogRecordBytes;
  // What a crash left of a record would shift all that follow.
  const auto whole = static_cast<off_t>(file.records * kLogRecordBytes);
  if (whole != index.st_size && ::ftruncate(file.index.get(), whole) != 0) {
    return FailErrno("cannot repair " + names.index, errno);
  }
  if (file.records > 0) {
    LogRecord last;
    const Fd reader(::open(names.index.c_str(), O_RDONLY | O_CLOEXEC));
    if (::pread(reader.get(), &last, sizeof(last), whole - static_cast<off_t>(sizeof(last))) !=
        static_cast<ssize_t>(sizeof(last))) {
      return FailErrno("cannot read " + names.index, errno);
    }
    file.indexed = last.end();
  }
  return {};
}

LogWriter::~LogWriter() {
  Finish();
}

void LogWriter::Start() {
  thread_ = std::thread([this] { Loop(); });
}

bool LogWriter::HasRoom() {
  const std::lock_guard lock(mutex_);
  return queued_bytes_ < kMaxQueuedBytes;
}

void LogWriter::Push(size_t index, uint32_t stream, std::string_view data, int64_t now) {
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ += data.size();
    if (!queue_.empty()) {
      Chunk& last = queue_.back();
      if (last.index == index && last.stream == stream && now - last.at < kMergeNanos &&
          last.data.size() + data.size() <= kMaxChunkBytes) {
        last.data.append(data);
        return;
      }
    }
    queue_.push_back(Chunk{.index = index, .stream = stream, .at = now, .data = std::string(data)});
  }
  changed_.notify_one();
}

void LogWriter::Drop(size_t index, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  dropped_[index] += bytes;
}

void LogWriter::Finish() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LogWriter::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return finishing_ || !queue_.empty(); });
    const bool last_round = queue_.empty();
    Chunk chunk;
    if (!last_round) {
      chunk = std::move(queue_.front());
      queue_.pop_front();
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      if (dropped_[i] != 0) {
        files_[i].lost += std::exchange(dropped_[i], 0);
        files_[i].reason = "the disk did not follow";
      }
    }
    lock.unlock();
    if (last_round) {
      for (File& file : files_) {
        WriteMarker(file, SystemNow().unix_nanos());
      }
      return;
    }
    Write(chunk);
    lock.lock();
    queued_bytes_ -= chunk.data.size();
  }
}

void LogWriter::Write(const Chunk& chunk) {
  File& file = files_[chunk.index];
  Begin(file);
  Rotate(file, chunk.at);
  WriteMarker(file, chunk.at);
  if (file.lost != 0) {
    // Not even the marker fits; writing on would hide where the gap is.
    file.lost += chunk.data.size();
    return;
  }
  file.lost = chunk.data.size() - Append(file, chunk.data);
  WriteRecord(file, chunk.at, chunk.stream);
}

void LogWriter::Begin(File& file) {
  const LogSegment& names = file.segments.back().names;
  if (!file.log.valid()) {
    Result<Fd> log = OpenForAppend(names.log);
    if (!log) {
      file.reason = log.error().message;
      return;
    }
    file.log = *std::move(log);
  }
  if (!file.index.valid()) {
    Result<Fd> index = OpenForAppend(names.index);
    file.index = index ? *std::move(index) : Fd();
  }
}

void LogWriter::Rotate(File& file, int64_t now) {
  if (segment_bytes_ == 0 || file.segments.back().bytes < segment_bytes_) {
    return;
  }
  WriteRecord(file, now, kStderrStream);  // what could not be recorded so far
  const LogSegment next = MakeLogSegment(folder_, file.rank, file.end);
  Result<Fd> log = OpenForAppend(next.log);
  Result<Fd> index = OpenForAppend(next.index);
  if (!log) {
    return;  // the last segment goes on
  }
  file.log = *std::move(log);
  file.index = index ? *std::move(index) : Fd();
  file.indexed = file.end;
  file.records = 0;
  file.segments.push_back({.names = next});
  uint64_t total = segment_bytes_;
  for (const Segment& segment : file.segments) {
    total += segment.bytes;
  }
  while (file.segments.size() > 1 && total > max_bytes_ &&
         DeleteLogSegment(file.segments.front().names)) {
    total -= file.segments.front().bytes;
    file.segments.pop_front();
  }
}

void LogWriter::WriteMarker(File& file, int64_t now) {
  if (file.lost == 0) {
    return;
  }
  Begin(file);
  const std::string line =
      "\n[tide] " + std::to_string(file.lost) + " bytes of output dropped: " + file.reason + "\n";
  if (Append(file, line) == line.size()) {
    file.lost = 0;
  }
  WriteRecord(file, now, kStderrStream);
}

size_t LogWriter::Append(File& file, std::string_view data) {
  size_t written = 0;
  while (file.log.valid() && written < data.size()) {
    const ssize_t n = ::write(file.log.get(), data.data() + written, data.size() - written);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      file.reason = FailErrno("the log cannot be written", errno).error().message;
      break;
    }
    written += static_cast<size_t>(n);
  }
  file.end += written;
  file.segments.back().bytes += written;
  return written;
}

void LogWriter::WriteRecord(File& file, int64_t now, uint32_t stream) {
  while (file.indexed < file.end) {
    const LogRecord record{.offset = file.indexed,
                           .at = now,
                           .length = static_cast<uint32_t>(std::min<uint64_t>(
                               file.end - file.indexed, std::numeric_limits<uint32_t>::max())),
                           .stream = stream};
    const ssize_t n = ::write(file.index.get(), &record, sizeof(record));
    if (n != static_cast<ssize_t>(sizeof(record))) {
      // A part of a record would shift all that follow. The next record covers these bytes too.
      const auto whole = static_cast<off_t>(file.records * kLogRecordBytes);
      if (n > 0 && ::ftruncate(file.index.get(), whole) != 0) {
        file.reason = "the index cannot be repaired";
      }
      return;
    }
    ++file.records;
    file.indexed = record.end();
    file.segments.back().bytes += kLogRecordBytes;
  }
}

}  // namespace tide::agent
