#include "sdk/native/copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "sdk/native/helpers.h"

namespace tide::sdk {
namespace {

// Large enough that the C library writes past the caches, small enough that threads end together.
constexpr size_t kPieceBytes = 32U << 20U;

std::vector<CopySpan> CutToPieces(std::span<const CopySpan> spans, size_t piece_bytes) {
  std::vector<CopySpan> pieces;
  for (const CopySpan& span : spans) {
    for (size_t done = 0; done < span.bytes; done += piece_bytes) {
      pieces.push_back({static_cast<char*>(span.to) + done,
                        static_cast<const char*>(span.from) + done,
                        std::min(piece_bytes, span.bytes - done)});
    }
  }
  return pieces;
}

}  // namespace

void CopyAll(std::span<const CopySpan> spans, unsigned threads) {
  const std::vector<CopySpan> pieces = CutToPieces(spans, kPieceBytes);
  std::atomic<size_t> next = 0;
  const auto work = [&pieces, &next] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      std::memcpy(pieces[i].to, pieces[i].from, pieces[i].bytes);
    }
  };
  const size_t sharing = std::min<size_t>(threads, pieces.size());
  ShareOut(sharing > 1 ? static_cast<unsigned>(sharing - 1) : 0, work);
}

Status Populate(void* memory, size_t bytes) {
  // In portions, so that one thread does not hold the address space's lock for seconds.
  constexpr size_t kPortion = 64U << 20U;
  for (size_t done = 0; done < bytes; done += kPortion) {
    void* const portion = static_cast<char*>(memory) + done;
    if (::madvise(portion, std::min(kPortion, bytes - done), MADV_POPULATE_WRITE) != 0) {
      const int error = errno;
      if (error == EINVAL) {
        return {};  // a kernel before 5.14: the first copy pays for it
      }
      return FailErrno(
          "cannot make " + std::to_string(bytes >> 20U) + " MiB of memory ready for staging",
          error);
    }
  }
  return {};
}

}  // namespace tide::sdk
