#include "sdk/native/load.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "common/base/file.h"
#include "sdk/native/crc32.h"
#include "sdk/native/data_file.h"
#include "sdk/native/helpers.h"

namespace tide::sdk {
namespace {

// Checked and then copied while still in the cache of the core.
constexpr size_t kCachedBytes = 256U << 10U;
// Tensors this large get huge pages: fresh small ones cost more than reading from the disk does.
constexpr size_t kHugeFrom = 4U << 20U;
constexpr uintptr_t kHugeBytes = 2U << 20U;

struct FreeChunk {
  void operator()(char* memory) const { std::free(memory); }
};
using ChunkMemory = std::unique_ptr<char, FreeChunk>;

struct Opened {
  Fd fd;
  bool direct = false;
};

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

Result<Opened> Open(const StoredFile& file) {
  Opened opened{.fd = Fd(::open(file.path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)),
                .direct = true};
  if (!opened.fd.valid() && errno == EINVAL) {
    opened = {.fd = Fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC)), .direct = false};
  }
  struct stat info{};
  if (!opened.fd.valid()) {
    return errno == ENOENT ? Fail(ErrorCode::kCorrupt, NameOf(file.path) + " is missing")
                           : FailErrno("cannot open " + file.path, errno);
  }
  if (::fstat(opened.fd.get(), &info) != 0) {
    return FailErrno("cannot look at " + file.path, errno);
  }
  if (static_cast<uint64_t>(info.st_size) != file.bytes) {
    return Fail(ErrorCode::kCorrupt,
                NameOf(file.path) + " has " + std::to_string(info.st_size) + " bytes instead of " +
                    std::to_string(file.bytes));
  }
  const uint64_t chunks = (file.bytes + kChunkBytes - 1) / kChunkBytes;
  if (file.crc32.size() != chunks) {
    return Fail(ErrorCode::kCorrupt,
                NameOf(file.path) + " has " + std::to_string(file.crc32.size()) + " CRCs for " +
                    std::to_string(file.bytes) + " bytes");
  }
  return opened;
}

// The inner whole huge pages of a large destination are asked for before they are touched.
void AskForHugePages(const StoredPiece& piece) {
  const uint64_t bytes = piece.runs.ToExtent();
  if (bytes < kHugeFrom) {
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(piece.to);
  const uintptr_t first = (begin + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
  const uintptr_t last = (begin + bytes) / kHugeBytes * kHugeBytes;
  if (last > first) {
    ::madvise(piece.to + (first - begin), last - first, MADV_HUGEPAGE);
  }
}

bool IsInside(const StoredPiece& piece, std::span<const StoredFile> files) {
  const auto steps = [](const RunDim& dim) { return dim.count > 0 && dim.from_stride > 0; };
  return piece.file < files.size() &&
         std::all_of(piece.runs.dims.begin(), piece.runs.dims.end(), steps) &&
         piece.offset <= files[piece.file].bytes &&
         piece.runs.FromExtent() <= files[piece.file].bytes - piece.offset;
}

uint64_t EndOf(const StoredPiece& piece) {
  return piece.offset + piece.runs.FromExtent();
}

class Loading {
 public:
  Loading(std::span<const StoredFile> files, std::span<const StoredPiece> pieces)
      : files_(files), pieces_(pieces) {}

  Status Run(unsigned threads) {
    for (const StoredFile& file : files_) {
      TIDE_ASSIGN(Opened opened, Open(file));
      opened_.push_back(std::move(opened));
      for (uint64_t chunk = 0; chunk < file.crc32.size(); ++chunk) {
        chunks_.push_back({opened_.size() - 1, chunk});
      }
    }
    for (const StoredPiece& piece : pieces_) {
      if (!IsInside(piece, files_)) {
        return Fail(ErrorCode::kInvalidArgument, "a tensor lies outside its data file");
      }
      AskForHugePages(piece);
    }
    const size_t sharing = std::min<size_t>(threads, chunks_.size());
    ShareOut(sharing > 1 ? static_cast<unsigned>(sharing - 1) : 0, [this] { TakeChunks(); });
    if (!failed_ && next_ < chunks_.size()) {
      return Fail(ErrorCode::kSystem, "no memory left to read checkpoint files into");
    }
    return first_error_ ? Status(std::unexpected(*first_error_)) : Status();
  }

 private:
  struct Place {
    uint64_t file = 0;
    uint64_t chunk = 0;
  };

  void TakeChunks() {
    const ChunkMemory memory(static_cast<char*>(std::aligned_alloc(kHugeBytes, kChunkBytes)));
    if (memory == nullptr) {
      return;  // others may have some
    }
    ::madvise(memory.get(), kChunkBytes, MADV_HUGEPAGE);
    for (size_t i = next_++; i < chunks_.size() && !failed_; i = next_++) {
      if (const Status taken = TakeChunk(chunks_[i], memory.get()); !taken) {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        if (!first_error_) {
          first_error_ = taken.error();
        }
      }
    }
  }

  Status TakeChunk(const Place& place, char* memory) {
    const StoredFile& file = files_[place.file];
    const uint64_t begin = place.chunk * kChunkBytes;
    const size_t bytes = std::min<uint64_t>(kChunkBytes, file.bytes - begin);
    TIDE_TRY(Read(place.file, begin, std::span(memory, bytes)));
    uint32_t crc = 0;
    auto piece = std::partition_point(pieces_.begin(), pieces_.end(), [&](const StoredPiece& item) {
      return item.file < place.file || (item.file == place.file && EndOf(item) <= begin);
    });
    for (size_t at = 0; at < bytes; at += kCachedBytes) {
      const size_t length = std::min(kCachedBytes, bytes - at);
      crc = Crc32(crc, memory + at, length);
      while (piece != pieces_.end() && piece->file == place.file &&
             piece->offset < begin + at + length) {
        const uint64_t from = std::max(piece->offset, begin + at);
        const uint64_t end = EndOf(*piece);
        const uint64_t until = std::min(end, begin + at + length);
        CopyRuns(piece->runs,
                 from - piece->offset,
                 until - piece->offset,
                 memory + (from - begin),
                 piece->to);
        if (end > begin + at + length) {
          break;
        }
        ++piece;
      }
    }
    if (crc != file.crc32[place.chunk]) {
      return Fail(ErrorCode::kCorrupt,
                  NameOf(file.path) + " chunk " + std::to_string(place.chunk) + " (bytes " +
                      std::to_string(begin) + " to " + std::to_string(begin + bytes) +
                      ") does not match its CRC-32");
    }
    return {};
  }

  // Direct reads go on to the end of the block, which the memory has room for.
  Status Read(uint64_t file, uint64_t begin, std::span<char> out) {
    Opened& opened = opened_[file];
    const size_t asked = (out.size() + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    for (size_t done = 0; done < out.size();) {
      const ssize_t n = ::pread(
          opened.fd.get(), out.data() + done, asked - done, static_cast<off_t>(begin + done));
      if (n > 0) {
        done += static_cast<size_t>(n);
      } else if (n == 0) {
        return Fail(ErrorCode::kCorrupt,
                    NameOf(files_[file].path) + " ends at byte " + std::to_string(begin + done));
      } else if (errno == EINVAL && (::fcntl(opened.fd.get(), F_GETFL) & O_DIRECT) != 0) {
        ::fcntl(opened.fd.get(), F_SETFL, ::fcntl(opened.fd.get(), F_GETFL) & ~O_DIRECT);
      } else if (errno != EINTR) {
        return FailErrno("cannot read " + files_[file].path, errno);
      }
    }
    return {};
  }

  const std::span<const StoredFile> files_;
  const std::span<const StoredPiece> pieces_;
  std::vector<Opened> opened_;
  std::vector<Place> chunks_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::optional<Error> first_error_;
};

}  // namespace

Status LoadPieces(std::span<const StoredFile> files,
                  std::span<const StoredPiece> pieces,
                  unsigned threads) {
  return Loading(files, pieces).Run(threads);
}

}  // namespace tide::sdk
