#pragma once
// One rank's data file, written from memory that already has the file's layout.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::sdk {

inline constexpr size_t kChunkBytes = 16U
                                      << 20U;  // a CRC-32 each, counted from the file's first byte
inline constexpr size_t kBlockBytes = 4096;    // what direct I/O asks of addresses and lengths

struct WrittenFile {
  std::vector<uint32_t> crc32;  // of each chunk
  bool direct = false;          // past the page cache
};

// Writes `content` to `path`, which must not exist yet, and makes it durable. Without O_DIRECT
// where the file system refuses it.
//   content: starts on a page; up to the next multiple of kBlockBytes it is readable.
//   Errors: kSystem naming what failed; the file is removed then.
//   Cost: threads that run where a CPU is idle take the CRC of one chunk while another is being
//     written; where none is, the caller's own joins them after half a second and 16 ms a chunk.
[[nodiscard]] Result<WrittenFile> WriteDataFile(const std::string& path,
                                                std::span<const char> content);

}  // namespace tide::sdk
