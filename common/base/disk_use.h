#pragma once
// Counts what files take on a disk, also where somebody else has made them and they are meant to
// harm.

#include <cstddef>
#include <cstdint>
#include <string>

namespace tide {

struct DiskUse {
  uint64_t bytes = 0;
  bool too_deep = false;  // folders below more than kFolderDepthMax others, which are not counted
};
// Each level holds a file of this process while it is walked.
inline constexpr size_t kFolderDepthMax = 256;
// Walks what is on the disk below a folder, without what it links to; a file with several names
// counts once. What cannot be read counts as 0.
[[nodiscard]] DiskUse WalkFolder(const std::string& folder);

// Writes an amount for people: "4.2 GiB", or "0.5 MiB" below one GiB; tenths are rounded down.
[[nodiscard]] std::string SizeText(uint64_t bytes);

// Bytes of a file system; 0 where they are not known.
struct DiskSpace {
  uint64_t all = 0;
  uint64_t free = 0;  // for programs that are not root
};
// Returns the space of the file system that holds a folder (statvfs(3)).
[[nodiscard]] DiskSpace SpaceAt(const std::string& folder);

}  // namespace tide
