#include "agent/validators/storage_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>

#include "common/base/file.h"
#include "common/base/prng.h"
#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr size_t kAlignment = 4096;  // what O_DIRECT asks for, at most
constexpr size_t kChunkBytes = 4U << 20U;
constexpr size_t kChunkWords = kChunkBytes / sizeof(uint64_t);
constexpr uint64_t kSpareBytes = 64ULL << 20U;  // left free for the jobs

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<uint64_t, FreeMemory>;

Buffer MakeBuffer() {
  return Buffer(static_cast<uint64_t*>(std::aligned_alloc(kAlignment, kChunkBytes)));
}

// The word at `index` of the file: depends on the place, so that swapped blocks show, and on the
// seed, so that data of an earlier run shows.
uint64_t PatternWord(uint64_t seed, uint64_t index) {
  return Prng(seed + index * 0x9e3779b97f4a7c15ULL).Next();
}

void FillPattern(std::span<uint64_t> words, uint64_t seed, uint64_t first_index) {
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = PatternWord(seed, first_index + i);
  }
}

std::string Rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

double MegabytesPerSecond(uint64_t bytes, int64_t nanos) {
  return static_cast<double>(bytes) * 1e3 / static_cast<double>(std::max<int64_t>(nanos, 1));
}

struct Mismatch {
  uint64_t first_offset = 0;
  uint64_t bytes = 0;
};

class Check {
 public:
  explicit Check(const StorageOptions& options)
      : options_(options),
        bytes_((options.bytes + kAlignment - 1) / kAlignment * kAlignment),
        buffer_(MakeBuffer()) {
    std::random_device random;
    seed_ = (static_cast<uint64_t>(random()) << 32U) | random();
  }

  // Errors become the evidence of a fail.
  Result<std::string> Run(double& slower) {
    if (buffer_ == nullptr) {
      return Fail(ErrorCode::kExhausted, "no memory for the buffer");
    }
    TIDE_TRY(CheckRoom());
    TIDE_TRY(MakeFile());
    TIDE_ASSIGN(const double write_mbps, Write());
    if (options_.plant_flip) {
      TIDE_TRY(PlantFlip());
    }
    const bool direct = LeavePageCache();
    TIDE_ASSIGN(const double read_mbps, ReadBack());
    slower = std::min(write_mbps, read_mbps);
    if (mismatch_.bytes > 0) {
      return Fail(ErrorCode::kCorrupt,
                  options_.dir + " gave back other data than was written: " +
                      std::to_string(mismatch_.bytes) + " wrong bytes, the first at offset " +
                      std::to_string(mismatch_.first_offset) + " of " + std::to_string(bytes_));
    }
    const std::string speeds = "writes " + Rounded(write_mbps) + " MB/s, reads " +
                               Rounded(read_mbps) + " MB/s" +
                               (direct ? " (direct)" : " (through the page cache)");
    if (slower < options_.floor_mbps) {
      return Fail(
          ErrorCode::kConflict,
          options_.dir + " is slower than " + Rounded(options_.floor_mbps) + " MB/s: " + speeds);
    }
    return options_.dir + ": " + std::to_string(bytes_) + " bytes verified, " + speeds;
  }

 private:
  [[nodiscard]] Status CheckRoom() const {
    struct statvfs info{};
    if (::statvfs(options_.dir.c_str(), &info) != 0) {
      return FailErrno("cannot look at " + options_.dir, errno);
    }
    const uint64_t available = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    // Some file systems do not know their size.
    if (info.f_blocks > 0 && available < bytes_ + kSpareBytes) {
      return Fail(ErrorCode::kExhausted,
                  options_.dir + " is full: " + std::to_string(available >> 20U) +
                      " MiB free, the check needs " +
                      std::to_string((bytes_ + kSpareBytes) >> 20U) + " MiB");
    }
    return {};
  }

  Status MakeFile() {
    const std::string path = options_.dir + "/.tide-validate-" + std::to_string(::getpid()) + "-" +
                             std::to_string(seed_);
    file_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file_.valid()) {
      return FailErrno("cannot write in " + options_.dir, errno);
    }
    if (::unlink(path.c_str()) != 0) {
      return FailErrno("cannot remove files in " + options_.dir, errno);
    }
    return {};
  }

  [[nodiscard]] size_t ChunkAt(uint64_t offset) const {
    return static_cast<size_t>(std::min<uint64_t>(kChunkBytes, bytes_ - offset));
  }

  // MB/s until the data is on the medium.
  Result<double> Write() {
    int64_t nanos = 0;
    for (uint64_t offset = 0; offset < bytes_; offset += kChunkBytes) {
      const size_t size = ChunkAt(offset);
      FillPattern({buffer_.get(), size / sizeof(uint64_t)}, seed_, offset / sizeof(uint64_t));
      const int64_t start = MonotonicNanos();
      const std::string_view data(reinterpret_cast<const char*>(buffer_.get()), size);
      if (const Status written = WriteAll(file_.get(), data); !written) {
        return Fail(written.error().code,
                    options_.dir + ": " + written.error().message + " (after " +
                        std::to_string(offset) + " bytes)");
      }
      nanos += MonotonicNanos() - start;
    }
    const int64_t start = MonotonicNanos();
    if (::fdatasync(file_.get()) != 0) {
      return FailErrno(options_.dir + ": the data does not reach the medium", errno);
    }
    nanos += MonotonicNanos() - start;
    return MegabytesPerSecond(bytes_, nanos);
  }

  [[nodiscard]] Status PlantFlip() const {
    const uint64_t offset = PatternWord(seed_, bytes_) % bytes_;
    char byte = 0;
    if (::pread(file_.get(), &byte, 1, static_cast<off_t>(offset)) != 1) {
      return FailErrno("cannot plant a fault", errno);
    }
    byte = static_cast<char>(byte ^ 0x10);
    if (::pwrite(file_.get(), &byte, 1, static_cast<off_t>(offset)) != 1 ||
        ::fdatasync(file_.get()) != 0) {
      return FailErrno("cannot plant a fault", errno);
    }
    return {};
  }

  // What is read next shall come from the medium. Returns whether reads bypass the cache for sure.
  [[nodiscard]] bool LeavePageCache() {
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    const int flags = ::fcntl(file_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(file_.get(), F_SETFL, flags | O_DIRECT) != 0) {
      return false;
    }
    if (::pread(file_.get(), buffer_.get(), kAlignment, 0) == static_cast<ssize_t>(kAlignment)) {
      return true;
    }
    ::fcntl(file_.get(), F_SETFL, flags);  // accepted, yet not able to
    return false;
  }

  Result<double> ReadBack() {
    int64_t nanos = 0;
    for (uint64_t offset = 0; offset < bytes_; offset += kChunkBytes) {
      const size_t size = ChunkAt(offset);
      const int64_t start = MonotonicNanos();
      TIDE_TRY(ReadChunk(offset, size));
      nanos += MonotonicNanos() - start;
      Compare(offset, size);
    }
    return MegabytesPerSecond(bytes_, nanos);
  }

  [[nodiscard]] Status ReadChunk(uint64_t offset, size_t size) const {
    auto* const bytes = reinterpret_cast<char*>(buffer_.get());
    for (size_t done = 0; done < size;) {
      const ssize_t n =
          ::pread(file_.get(), bytes + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0) {
        return FailErrno(
            options_.dir + ": cannot read back at offset " + std::to_string(offset + done), errno);
      }
      if (n == 0) {
        return Fail(ErrorCode::kCorrupt,
                    options_.dir + " lost the end of the file, from offset " +
                        std::to_string(offset + done));
      }
      done += static_cast<size_t>(n);
    }
    return {};
  }

  void Compare(uint64_t offset, size_t size) {
    for (size_t i = 0; i < size / sizeof(uint64_t); ++i) {
      const uint64_t place = offset + i * sizeof(uint64_t);
      const uint64_t wrong = buffer_.get()[i] ^ PatternWord(seed_, place / sizeof(uint64_t));
      if (wrong == 0) {
        continue;
      }
      std::array<uint8_t, sizeof(wrong)> bytes{};
      std::copy_n(reinterpret_cast<const uint8_t*>(&wrong), bytes.size(), bytes.begin());
      for (size_t k = 0; k < bytes.size(); ++k) {
        if (bytes[k] != 0) {
          mismatch_.first_offset = mismatch_.bytes == 0 ? place + k : mismatch_.first_offset;
          ++mismatch_.bytes;
        }
      }
    }
  }

  const StorageOptions& options_;
  uint64_t bytes_;
  uint64_t seed_ = 0;
  Buffer buffer_;
  Fd file_;
  Mismatch mismatch_;
};

}  // namespace

Verdict CheckStorage(const StorageOptions& options) {
  const int64_t start = MonotonicNanos();
  if (options.plant_hang) {
    std::raise(SIGSTOP);
  }
  Verdict verdict;
  verdict.validator = "storage";
  verdict.unit = "MB/s";
  const auto evidence = Check(options).Run(verdict.value);
  verdict.outcome = evidence ? Outcome::kPass : Outcome::kFail;
  verdict.evidence = evidence ? *evidence : evidence.error().message;
  verdict.seconds = static_cast<double>(MonotonicNanos() - start) / 1e9;
  return verdict;
}

}  // namespace tide::validators
