#pragma once
// Reading data files of a checkpoint: once, every byte compared with its CRC, straight to where the
// tensors are.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sdk/native/box.h"
#include "sdk/native/node_ring.h"

namespace tide::sdk {

struct StoredFile {
  std::string path;
  uint64_t bytes = 0;
  std::span<const uint32_t> crc32;  // of each kChunkBytes
};

struct StoredPiece {
  uint64_t file = 0;    // index
  uint64_t offset = 0;  // of the first run in the file
  Runs runs;
  char* to = nullptr;  // where the first run goes
};

// pieces: sorted by file and offset; the stretches from a piece's first run to its last one do not
//   overlap.   threads: at least 1.
//   Errors: kCorrupt naming file and chunk; kInvalidArgument for a piece outside its file; kSystem.
//   Cost: `threads` chunks of memory; each reads, checks and copies one chunk after another.
[[nodiscard]] Status LoadPieces(std::span<const StoredFile> files,
                                std::span<const StoredPiece> pieces,
                                unsigned threads);

// How long the ranks of a node wait for one another: they need all of them to train.
inline constexpr int64_t kRingPatienceNs = 60'000'000'000;

// Smaller ones are read by each rank: it would take longer to meet.
inline constexpr uint64_t kTogetherFromBytes = uint64_t{64} << 20U;

// Loads as one of the ranks of a node that load together: what one has read the others copy, and
// check. Each gives the same files, and the pieces that it wants of them.
[[nodiscard]] Status LoadPiecesTogether(const RingPlace& place,
                                        std::span<const StoredFile> files,
                                        std::span<const StoredPiece> pieces,
                                        unsigned threads,
                                        int64_t patience_ns = kRingPatienceNs);

}  // namespace tide::sdk
