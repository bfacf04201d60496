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
#include <thread>

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

  Status Open() {
    for (const StoredFile& file : files_) {
      TIDE_ASSIGN(Opened opened, sdk::Open(file));
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
    return {};
  }

  [[nodiscard]] uint64_t chunks() const { return chunks_.size(); }

  Status Run(unsigned threads) {
    const size_t sharing = std::min<size_t>(threads, chunks_.size());
    ShareOut(sharing > 1 ? static_cast<unsigned>(sharing - 1) : 0, [this] { TakeChunks(); });
    if (!failed_ && next_ < chunks_.size()) {
      return Fail(ErrorCode::kSystem, "no memory left to read checkpoint files into");
    }
    return first_error_ ? Status(std::unexpected(*first_error_)) : Status();
  }

  // Has helpers read this rank's chunks into the ring, and takes all chunks out of it.
  Status RunTogether(NodeRing& ring, unsigned threads) {
    std::atomic<uint64_t> next = 0;
    std::vector<std::jthread> readers;
    const auto read = [&] { ReadMine(ring, next); };
    const size_t wanted = std::max(1U, threads - 1);
    while (readers.size() < wanted && StartHelper(readers, read)) {
    }
    if (readers.empty()) {
      return Run(1);
    }
    for (uint64_t i = 0; i < chunks_.size(); ++i) {
      const Place& place = chunks_[i];
      bool is_good = false;
      const bool is_taken =
          ring.Take(i, [&](char* memory) { is_good = CopyChecked(place, memory); });
      if (Status taken = is_taken && is_good ? Status() : TakeAlone(place); !taken) {
        ring.Close();
        return taken;
      }
    }
    return {};
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

  void ReadMine(NodeRing& ring, std::atomic<uint64_t>& next) {
    for (uint64_t i = next++; i < chunks_.size(); i = next++) {
      if (!ring.IsMine(i)) {
        continue;
      }
      if (char* const memory = ring.Begin(i); memory != nullptr) {
        const Place& place = chunks_[i];
        const std::span<char> out(memory, BytesOf(place));
        ring.End(i, Read(place.file, place.chunk * kChunkBytes, out).has_value());
      } else if (ring.is_closed()) {
        return;
      }
    }
  }

  Status TakeAlone(const Place& place) {
    if (alone_ == nullptr) {
      alone_.reset(static_cast<char*>(std::aligned_alloc(kHugeBytes, kChunkBytes)));
    }
    return alone_ != nullptr
               ? TakeChunk(place, alone_.get())
               : Fail(ErrorCode::kSystem, "no memory left to read checkpoint files into");
  }

  [[nodiscard]] size_t BytesOf(const Place& place) const {
    return std::min<uint64_t>(kChunkBytes, files_[place.file].bytes - place.chunk * kChunkBytes);
  }

  Status TakeChunk(const Place& place, char* memory) {
    const StoredFile& file = files_[place.file];
    const uint64_t begin = place.chunk * kChunkBytes;
    const size_t bytes = BytesOf(place);
    TIDE_TRY(Read(place.file, begin, std::span(memory, bytes)));
    if (!CopyChecked(place, memory)) {
      return Fail(ErrorCode::kCorrupt,
                  NameOf(file.path) + " chunk " + std::to_string(place.chunk) + " (bytes " +
                      std::to_string(begin) + " to " + std::to_string(begin + bytes) +
                      ") does not match its CRC-32");
    }
    return {};
  }

  // Copies what the pieces want of a chunk. False: it does not match its CRC.
  bool CopyChecked(const Place& place, char* memory) {
    const size_t bytes = BytesOf(place);
    uint32_t crc = 0;
    for (size_t at = 0; at < bytes; at += kCachedBytes) {
      const size_t length = std::min(kCachedBytes, bytes - at);
      crc = Crc32(crc, memory + at, length);
      CopyOut(place, memory, at, length);
    }
    return crc == files_[place.file].crc32[place.chunk];
  }

  // Copies what the pieces want of a stretch of the chunk in `memory`.
  void CopyOut(const Place& place, char* memory, size_t at, size_t length) {
    const uint64_t begin = place.chunk * kChunkBytes;
    auto piece = std::partition_point(pieces_.begin(), pieces_.end(), [&](const StoredPiece& item) {
      return item.file < place.file || (item.file == place.file && EndOf(item) <= begin + at);
    });
    for (;
         piece != pieces_.end() && piece->file == place.file && piece->offset < begin + at + length;
         ++piece) {
      const uint64_t from = std::max(piece->offset, begin + at);
      const uint64_t until = std::min(EndOf(*piece), begin + at + length);
      CopyRuns(piece->runs,
               from - piece->offset,
               until - piece->offset,
               memory + (from - begin),
               piece->to);
    }
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
  ChunkMemory alone_;
};

// Tells these files from others.
uint64_t HashOf(std::span<const StoredFile> files) {
  uint32_t crc = 0;
  for (const StoredFile& file : files) {
    crc = Crc32(crc, file.path.data(), file.path.size());
    crc = Crc32(crc, file.crc32.data(), file.crc32.size_bytes());
  }
  return crc;
}

}  // namespace

Status LoadPieces(std::span<const StoredFile> files,
                  std::span<const StoredPiece> pieces,
                  unsigned threads) {
  Loading loading(files, pieces);
  TIDE_TRY(loading.Open());
  return loading.Run(threads);
}

Status LoadPiecesTogether(const RingPlace& place,
                          std::span<const StoredFile> files,
                          std::span<const StoredPiece> pieces,
                          unsigned threads,
                          int64_t patience_ns) {
  Loading loading(files, pieces);
  TIDE_TRY(loading.Open());
  uint64_t bytes = 0;
  for (const StoredFile& file : files) {
    bytes += file.bytes;
  }
  if (bytes >= kTogetherFromBytes && place.ranks > 1) {
    const Result<std::unique_ptr<NodeRing>> ring =
        NodeRing::Join(place, HashOf(files), loading.chunks(), patience_ns);
    if (ring) {
      return loading.RunTogether(**ring, threads);
    }
  }
  return loading.Run(threads);
}

}  // namespace tide::sdk
