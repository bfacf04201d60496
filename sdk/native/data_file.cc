#include "sdk/native/data_file.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/base/file.h"
#include "sdk/native/crc32.h"
#include "sdk/native/helpers.h"

namespace tide::sdk {
namespace {

constexpr unsigned kWriters = 3;
// A file of fewer chunks is written before training notices.
constexpr size_t kManyChunks = 4;
// What a file takes where one CPU is idle half of the time.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPatienceForChunk{16};

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class ChunkWriters {
 public:
  ChunkWriters(int fd, std::span<const char> content, bool direct)
      : fd_(fd),
        content_(content),
        crc32_(RoundUp(content.size(), kChunkBytes) / kChunkBytes),
        direct_(direct) {}

  // Returns errno of the first failure, 0 if there was none.
  int Run() {
    std::vector<std::jthread> idle;
    if (crc32_.size() >= kManyChunks) {
      idle_ = kWriters;
      for (unsigned i = 0; i < kWriters; ++i) {
        if (!StartHelper(idle, [this] { TakeChunksWhenIdle(); })) {
          const std::lock_guard lock(mutex_);
          --idle_;
        }
      }
      // Where training leaves no CPU idle, this thread takes its share of them in the end.
      std::unique_lock lock(mutex_);
      idle_changed_.wait_for(
          lock, kPatience + kPatienceForChunk * crc32_.size(), [this] { return idle_ == 0; });
    }
    TakeChunks();
    idle.clear();  // waits for them
    return error_;
  }

  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] std::vector<uint32_t> TakeCrcs() { return std::move(crc32_); }

 private:
  // On CPUs that training leaves idle: it makes its steps longer to share one of them.
  void TakeChunksWhenIdle() {
    const sched_param none{};
    static_cast<void>(::sched_setscheduler(0, SCHED_IDLE, &none));  // this thread alone
    TakeChunks();
    const std::lock_guard lock(mutex_);
    --idle_;
    idle_changed_.notify_one();
  }

  void TakeChunks() {
    for (size_t i = next_++; i < crc32_.size() && error_ == 0; i = next_++) {
      const size_t begin = i * kChunkBytes;
      const size_t bytes = std::min(kChunkBytes, content_.size() - begin);
      crc32_[i] = Crc32(0, content_.data() + begin, bytes);
      if (const int error = Write(begin, bytes); error != 0) {
        int none = 0;
        error_.compare_exchange_strong(none, error);
      }
    }
  }

  // The last block is written whole and cut off later: direct I/O knows blocks only.
  int Write(size_t begin, size_t bytes) {
    const size_t end = begin + RoundUp(bytes, kBlockBytes);
    bool tried_buffered = false;
    for (size_t at = begin; at < end;) {
      const ssize_t n = ::pwrite(fd_, content_.data() + at, end - at, static_cast<off_t>(at));
      if (n > 0) {
        at += static_cast<size_t>(n);
      } else if (n < 0 && errno == EINVAL && !tried_buffered) {
        // A file system that takes the flag when opening and then wants larger blocks.
        tried_buffered = true;
        direct_ = false;
        ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);
      } else if (n == 0 || errno != EINTR) {
        return n == 0 ? EIO : errno;
      }
    }
    return 0;
  }

  const int fd_;
  const std::span<const char> content_;
  std::vector<uint32_t> crc32_;
  std::atomic<bool> direct_;
  std::atomic<size_t> next_ = 0;
  std::atomic<int> error_ = 0;
  std::mutex mutex_;
  std::condition_variable idle_changed_;
  unsigned idle_ = 0;  // writers that wait for idle CPUs and have not ended
};

}  // namespace

Result<WrittenFile> WriteDataFile(const std::string& path, std::span<const char> content) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  constexpr unsigned kMode = 0666;  // less what the umask forbids
  bool direct = true;
  Fd fd(::open(path.c_str(), kFlags | O_DIRECT, kMode));
  if (!fd.valid() && errno == EINVAL) {
    direct = false;
    ::unlink(path.c_str());  // some file systems make it before they refuse
    fd = Fd(::open(path.c_str(), kFlags, kMode));
  }
  if (!fd.valid()) {
    return FailErrno("cannot create " + path, errno);
  }
  // Room first: the disk is full before anything was written, and writes that do not make the file
  // longer need not wait for each other. Some file systems cannot.
  const auto padded = static_cast<off_t>(RoundUp(content.size(), kBlockBytes));
  if (padded > 0 && ::fallocate(fd.get(), 0, 0, padded) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    const int full = errno;
    ::unlink(path.c_str());
    return FailErrno("cannot write " + path, full);
  }
  ChunkWriters writers(fd.get(), content, direct);
  int error = writers.Run();
  if (error == 0 && ::ftruncate(fd.get(), static_cast<off_t>(content.size())) != 0) {
    error = errno;
  }
  if (error == 0 && ::fdatasync(fd.get()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(path.c_str());
    return FailErrno("cannot write " + path, error);
  }
  return WrittenFile{.crc32 = writers.TakeCrcs(), .direct = writers.direct()};
}

}  // namespace tide::sdk
