#include "agent/init/log_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "agent/runtime/task_folder.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr size_t kMaxQueuedBytes = 32U << 20U;
constexpr size_t kMaxChunkBytes = 256U << 10U;
// Output of one rank that comes in small pieces shares one index record within this time.
constexpr int64_t kMergeNanos = 20'000'000;
constexpr size_t kRecordBytes = 24;

Result<Fd> OpenForAppend(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return FailErrno("cannot create " + path, errno);
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<LogWriter>> LogWriter::Open(const std::string& folder,
                                                   const std::vector<uint32_t>& ranks) {
  TIDE_TRY(MakeDirs(folder));
  std::unique_ptr<LogWriter> writer(new LogWriter());
  for (const uint32_t rank : ranks) {
    File file;
    TIDE_ASSIGN(file.log, OpenForAppend(folder + "/" + LogName(rank) + ".log"));
    TIDE_ASSIGN(file.index, OpenForAppend(folder + "/" + LogName(rank) + ".idx"));
    struct stat info{};
    if (::fstat(file.log.get(), &info) == 0) {
      file.size = static_cast<uint64_t>(info.st_size);
      file.indexed = file.size;
    }
    if (::fstat(file.index.get(), &info) == 0) {
      file.records = static_cast<uint64_t>(info.st_size) / kRecordBytes;
    }
    writer->files_.push_back(std::move(file));
  }
  writer->dropped_.resize(ranks.size());
  return writer;
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
  WriteMarker(file, chunk.at);
  if (file.lost != 0) {
    // Not even the marker fits; writing on would hide where the gap is.
    file.lost += chunk.data.size();
    return;
  }
  file.lost = chunk.data.size() - Append(file, chunk.data);
  WriteRecord(file, chunk.at, chunk.stream);
}

void LogWriter::WriteMarker(File& file, int64_t now) {
  if (file.lost == 0) {
    return;
  }
  const std::string line =
      "\n[tide] " + std::to_string(file.lost) + " bytes of output dropped: " + file.reason + "\n";
  if (Append(file, line) == line.size()) {
    file.lost = 0;
  }
  WriteRecord(file, now, kStderrStream);
}

size_t LogWriter::Append(File& file, std::string_view data) {
  size_t written = 0;
  while (written < data.size()) {
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
  file.size += written;
  return written;
}

void LogWriter::WriteRecord(File& file, int64_t now, uint32_t stream) {
  while (file.indexed < file.size) {
    const auto length = static_cast<uint32_t>(
        std::min<uint64_t>(file.size - file.indexed, std::numeric_limits<uint32_t>::max()));
    std::array<char, kRecordBytes> record{};
    std::memcpy(record.data(), &file.indexed, 8);
    std::memcpy(record.data() + 8, &now, 8);
    std::memcpy(record.data() + 16, &length, 4);
    std::memcpy(record.data() + 20, &stream, 4);
    const ssize_t n = ::write(file.index.get(), record.data(), record.size());
    if (n != static_cast<ssize_t>(record.size())) {
      // A part of a record would shift all that follow. The next record covers these bytes too.
      if (n > 0 && ::ftruncate(file.index.get(), static_cast<off_t>(file.records * kRecordBytes))) {
        file.reason = "the index cannot be repaired";
      }
      return;
    }
    ++file.records;
    file.indexed += length;
  }
}

}  // namespace tide::agent
