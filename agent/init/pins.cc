#include "agent/init/pins.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "agent/identity/spec_path.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

// A mount that is made: its configuration, and the top of it.
struct Pinned {
  MountConfig mount;
  Fd top;
};

bool IsBelow(const std::string& path, const std::string& folder) {
  return path.starts_with(folder + "/");
}

auto Depth(const MountConfig& mount) {
  return std::ranges::count(mount.target, '/');
}

Result<Fd> OpenSource(const TaskConfig& config, const MountConfig& mount) {
  if (mount.inode != 0) {
    const OwnerEyes eyes({config.uid, config.gid, config.groups, ""});
    return OpenResolved(mount.source, mount.device, mount.inode);
  }
  Fd source(::open(mount.source.c_str(), O_PATH | O_CLOEXEC));
  if (!source.valid()) {
    return FailErrno("cannot mount " + mount.source, errno);
  }
  return source;
}

// A mount of `source` that lies nowhere yet, without those in it.
Result<Fd> Clone(const MountConfig& mount, const Fd& source) {
  Fd clone(static_cast<int>(
      ::syscall(SYS_open_tree, source.get(), "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH)));
  if (!clone.valid()) {
    return FailErrno("cannot mount " + mount.source, errno);
  }
  return clone;
}

Status Attach(const Pinned& pinned, int folder, const char* path) {
  unsigned flags = MOVE_MOUNT_F_EMPTY_PATH;
  if (*path == '\0') {
    flags |= MOVE_MOUNT_T_EMPTY_PATH;
  }
  if (::syscall(SYS_move_mount, pinned.top.get(), "", folder, path, flags) != 0) {
    return FailErrno("cannot mount " + pinned.mount.source + " at " + pinned.mount.target, errno);
  }
  return {};
}

// An empty file or folder to mount on. Returns its path.
Result<std::string> MakePlace(const Pinned& pinned, size_t number) {
  std::string place = std::string(kPinsFolder) + "/" + std::to_string(number);
  struct stat info{};
  if (::fstat(pinned.top.get(), &info) != 0) {
    return FailErrno("cannot mount " + pinned.mount.source, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    TIDE_TRY(MakeDirs(place, 0755));
  } else {
    const Fd file(::open(place.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  }
  return place;
}

// The innermost of `made` in which `mount` lies, unless a masked folder lies between.
Pinned* OuterOf(const TaskConfig& config, const MountConfig& mount, std::vector<Pinned>& made) {
  const auto outer = std::find_if(made.rbegin(), made.rend(), [&](const Pinned& each) {
    return IsBelow(mount.target, each.mount.target);
  });
  if (outer == made.rend()) {
    return nullptr;
  }
  const std::string& around = outer->mount.target;
  const bool masked = std::ranges::any_of(config.masks, [&](const std::string& mask) {
    return IsBelow(mask, around) && (mount.target == mask || IsBelow(mount.target, mask));
  });
  return masked ? nullptr : &*outer;
}

// Puts a mount into another one, in which its place must be there: whoever makes it is root, and
// would make it in a user's folder.
Status PutInto(const TaskConfig& config, const Pinned& pinned, const Pinned& outer) {
  const std::string inside = pinned.mount.target.substr(outer.mount.target.size() + 1);
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  Fd place;
  {
    const OwnerEyes eyes({config.uid, config.gid, config.groups, ""});
    place = Fd(static_cast<int>(
        ::syscall(SYS_openat2, outer.top.get(), inside.c_str(), &how, sizeof how)));
  }
  if (!place.valid()) {
    return Fail(ErrorCode::kInvalidArgument,
                FailErrno("a mount at " + pinned.mount.target + " lies in " + outer.mount.source +
                              ", where " + inside + " must be a folder or file already",
                          errno)
                    .error()
                    .message);
  }
  TIDE_TRY(Attach(pinned, place.get(), ""));
  unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV;
  if (pinned.mount.read_only) {
    flags |= MS_RDONLY;
  }
  const std::string top = "/proc/self/fd/" + std::to_string(pinned.top.get());
  if (::mount(nullptr, top.c_str(), nullptr, flags, nullptr) != 0) {
    return FailErrno("cannot set the rights of the mount at " + pinned.mount.target, errno);
  }
  return {};
}

}  // namespace

Result<TaskConfig> PinMounts(TaskConfig config) {
  TIDE_TRY(MakeDirs(kPinsFolder, 0755));
  std::ranges::stable_sort(config.mounts, {}, Depth);
  std::vector<Pinned> made;
  made.reserve(config.mounts.size());
  std::vector<MountConfig> outermost;
  for (const MountConfig& mount : config.mounts) {
    TIDE_ASSIGN(const Fd source, OpenSource(config, mount));
    TIDE_ASSIGN(Fd clone, Clone(mount, source));
    Pinned pinned{mount, std::move(clone)};
    if (Pinned* outer = OuterOf(config, mount, made); outer != nullptr) {
      TIDE_TRY(PutInto(config, pinned, *outer));
      for (MountConfig& each : outermost) {
        each.holds_others = each.holds_others || IsBelow(mount.target, each.target);
      }
    } else {
      TIDE_ASSIGN(const std::string place, MakePlace(pinned, made.size()));
      TIDE_TRY(Attach(pinned, AT_FDCWD, place.c_str()));
      outermost.push_back(mount);
      outermost.back().source = config.folder + "/" + place;
    }
    made.push_back(std::move(pinned));
  }
  config.mounts = std::move(outermost);
  return config;
}

}  // namespace tide::agent
