#include "common/base/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tide {
namespace {

constexpr uint64_t kBlock = 512;  // of st_blocks

struct CloseFolder {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

}  // namespace

DiskUse WalkFolder(const std::string& folder) {
  DiskUse use;
  std::set<std::pair<dev_t, ino_t>> linked;  // files with several names count once
  std::vector<Folder> open;                  // from `folder` to the one that is read
  const auto enter = [&open](int at, const char* name) {
    const int fd = ::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (DIR* const stream = fd < 0 ? nullptr : ::fdopendir(fd)) {
      open.emplace_back(stream);
    } else if (fd >= 0) {
      ::close(fd);
    }
  };
  enter(AT_FDCWD, folder.c_str());
  while (!open.empty()) {
    // The stream is this thread's alone. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const dirent* const entry = ::readdir(open.back().get());
    if (entry == nullptr) {
      open.pop_back();
      continue;
    }
    const std::string_view name = entry->d_name;
    const int at = ::dirfd(open.back().get());
    struct stat found = {};
    if (name == "." || name == ".." ||
        ::fstatat(at, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    const bool is_folder = S_ISDIR(found.st_mode);
    if (is_folder || found.st_nlink < 2 || linked.emplace(found.st_dev, found.st_ino).second) {
      use.bytes += static_cast<uint64_t>(found.st_blocks) * kBlock;
    }
    if (is_folder && open.size() < kFolderDepthMax) {
      enter(at, entry->d_name);
    } else if (is_folder) {
      use.too_deep = true;
    }
  }
  return use;
}

std::string SizeText(uint64_t bytes) {
  const unsigned unit = bytes >= 1ULL << 30U ? 30 : 20;
  const uint64_t tenths = (bytes >> unit) * 10 + ((bytes & ((1ULL << unit) - 1)) * 10 >> unit);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
         (unit == 30 ? " GiB" : " MiB");
}

DiskSpace SpaceAt(const std::string& folder) {
  struct statvfs disk = {};
  return ::statvfs(folder.c_str(), &disk) == 0
             ? DiskSpace{disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize}
             : DiskSpace();
}

}  // namespace tide
