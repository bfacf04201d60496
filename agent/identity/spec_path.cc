#include "agent/identity/spec_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <set>
#include <string_view>

namespace tide::agent {
namespace {

// File systems whose files are not data but the kernel's, or its users', state.
constexpr std::array<uint64_t, 17> kKernelsOwn = {
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEVPTS_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    BPF_FS_MAGIC,
    NSFS_MAGIC,
    EFIVARFS_MAGIC,
    PSTOREFS_MAGIC,
    SELINUX_MAGIC,
    BINFMTFS_MAGIC,
    0x19800202,  // mqueue
    0x62656570,  // configfs
    0x67596969,  // rpc_pipefs
};

// The node's own folders, which no job may have whatever its rights.
constexpr std::array kNodesOwn = {"/dev", "/proc", "/sys", "/run", "/boot"};

// First in an answer.
enum Verdict : char {
  kFine = 'f',
  kOutside = 'o',
  kGuarded = 'g',
  kKernel = 'k',
  kNeither = 'n',
};

struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

FileId IdOf(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

struct Above {
  FileId folder;
  std::string inside;  // the guarded folder from there
};

// What the rules name, looked up.
struct Grounds {
  std::vector<FileId> roots;
  std::vector<FileId> guarded;
  std::vector<Above> above;
};

int OpenAs(const std::string& path, uint64_t flags, uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = resolve;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
}

std::string OpenedBy(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

// The path of an open file without links; "" of one that was deleted or that nobody can see.
std::string PathOf(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t size = ::readlink(OpenedBy(fd).c_str(), path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  struct stat opened{};
  struct stat named{};
  const bool same = ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                    IdOf(opened) == IdOf(named);
  return same && path.starts_with('/') ? path : "";
}

// "/a/b" of "/a/b/c", "/" of "/a"; "" of "/".
std::string ParentOf(const std::string& path) {
  if (path == "/") {
    return "";
  }
  return path.substr(0, std::max<size_t>(1, path.rfind('/')));
}

void AddGuarded(const std::string& folder, Grounds& grounds) {
  const Fd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = fd.valid() ? PathOf(fd.get()) : "";
  struct stat info{};
  if (path.empty() || ::fstat(fd.get(), &info) != 0) {
    return;  // it is not there
  }
  grounds.guarded.push_back(IdOf(info));
  for (std::string up = ParentOf(path); !up.empty(); up = ParentOf(up)) {
    if (::stat(up.c_str(), &info) == 0) {
      grounds.above.push_back({IdOf(info), path.substr(up == "/" ? 1 : up.size() + 1)});
    }
  }
}

Grounds LookUp(const PathRules& rules, const Owner& owner) {
  Grounds grounds;
  struct stat info{};
  for (const std::string& root : rules.roots) {
    if (::stat(root.c_str(), &info) == 0) {
      grounds.roots.push_back(IdOf(info));
    }
  }
  // The home of a user for services may be "/" or somebody else's.
  if (!owner.home.empty() && ::stat(owner.home.c_str(), &info) == 0 && info.st_uid == owner.uid) {
    grounds.roots.push_back(IdOf(info));
  }
  for (const std::string& folder : rules.guarded) {
    AddGuarded(folder, grounds);
  }
  for (const char* folder : kNodesOwn) {
    AddGuarded(folder, grounds);
  }
  return grounds;
}

// Whether jobs may go where `path`, which has no links, leads: the nearest folder that the rules
// name decides.
Verdict Judge(const Grounds& grounds, const std::string& path) {
  struct stat info{};
  for (std::string at = path; !at.empty(); at = ParentOf(at)) {
    if (::lstat(at.c_str(), &info) != 0) {
      return kOutside;
    }
    if (std::ranges::find(grounds.roots, IdOf(info)) != grounds.roots.end()) {
      return kFine;
    }
    if (std::ranges::find(grounds.guarded, IdOf(info)) != grounds.guarded.end()) {
      return kGuarded;
    }
  }
  return kOutside;
}

Verdict JudgeKind(int fd, const struct stat& info) {
  struct statfs system{};
  // The kernel's own always answer; some servers of files cannot.
  if (::fstatfs(fd, &system) == 0 &&
      std::ranges::find(kKernelsOwn, static_cast<uint64_t>(system.f_type)) != kKernelsOwn.end()) {
    return kKernel;
  }
  return S_ISDIR(info.st_mode) || S_ISREG(info.st_mode) ? kFine : kNeither;
}

int AccessMode(PathUse use) {
  switch (use) {
    case PathUse::kRead:
      return R_OK;
    case PathUse::kWrite:
      return R_OK | W_OK;
    case PathUse::kEnter:
      return R_OK | X_OK;
    case PathUse::kFolder:
      return R_OK | W_OK | X_OK;
  }
  return R_OK;
}

// Opens `asked`, making the folders of it that are missing, if they are where jobs may go.
//   answer: gets the verdict when they are not. Returns an errno.
int MakeFolders(const Grounds& grounds, const std::string& asked, Fd& opened, std::string& answer) {
  std::string there = asked;
  std::vector<std::string> missing;
  opened = Fd(OpenAs(there, O_PATH, RESOLVE_NO_MAGICLINKS));
  while (!opened.valid() && errno == ENOENT && there != "/") {
    const std::string up = ParentOf(there);
    missing.push_back(there.substr(up == "/" ? 1 : up.size() + 1));
    there = up;
    opened = Fd(OpenAs(there, O_PATH, RESOLVE_NO_MAGICLINKS));
  }
  if (!opened.valid()) {
    return errno;
  }
  if (missing.empty()) {
    return 0;
  }
  if (const Verdict verdict = Judge(grounds, PathOf(opened.get())); verdict != kFine) {
    answer.assign(1, verdict);
    return 0;
  }
  for (auto name = missing.rbegin(); name != missing.rend(); ++name) {
    if (::mkdirat(opened.get(), name->c_str(), 0755) != 0 && errno != EEXIST) {
      return errno;
    }
    opened =
        Fd(::openat(opened.get(), name->c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened.valid()) {
      return errno;
    }
  }
  return 0;
}

// With the owner's rights. answer: a verdict, and what a SpecPath holds where it is kFine.
int Look(const Grounds& grounds, const std::string& asked, PathUse use, std::string& answer) {
  Fd fd;
  if (use == PathUse::kFolder) {
    if (const int error = MakeFolders(grounds, asked, fd, answer); error != 0 || !answer.empty()) {
      return error;
    }
  } else {
    fd = Fd(OpenAs(asked, O_PATH, RESOLVE_NO_MAGICLINKS));
  }
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return errno;
  }
  const std::string path = PathOf(fd.get());
  if (path.empty()) {
    return ENOENT;
  }
  const Verdict kind = JudgeKind(fd.get(), info);
  answer.assign(1, kind == kKernel ? kKernel : Judge(grounds, path));
  if (answer.front() != kFine) {
    return 0;
  }
  answer.assign(1, kind);
  const bool folder = use == PathUse::kEnter || use == PathUse::kFolder;
  if (folder && !S_ISDIR(info.st_mode)) {
    return ENOTDIR;
  }
  if (::access(OpenedBy(fd.get()).c_str(), AccessMode(use)) != 0) {
    return errno;
  }
  const auto add = [&answer](const std::string& field) { answer += field + '\0'; };
  add(path);
  add(std::to_string(info.st_dev));
  add(std::to_string(info.st_ino));
  for (const Above& above : grounds.above) {
    if (above.folder == IdOf(info)) {
      add(above.inside);
    }
  }
  return 0;
}

SpecPath ParseAnswer(std::string_view text) {
  std::vector<std::string> fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    fields.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  SpecPath found;
  if (fields.size() >= 3) {
    const auto number = [](const std::string& field) {
      uint64_t value = 0;
      std::from_chars(field.data(), field.data() + field.size(), value);
      return value;
    };
    found.path = std::move(fields[0]);
    found.device = number(fields[1]);
    found.inode = number(fields[2]);
    found.guarded_inside.assign(fields.begin() + 3, fields.end());
  }
  return found;
}

std::unexpected<Error> Refuse(const PathRules& rules,
                              const Owner& owner,
                              const std::string& asked,
                              Verdict verdict,
                              const std::string& node) {
  if (verdict == kNeither) {
    return Fail(ErrorCode::kInvalidArgument, asked + " is neither a folder nor a file on " + node);
  }
  std::string text = asked;
  if (verdict == kKernel) {
    text += " belongs to the kernel of " + node;
  } else if (verdict == kGuarded) {
    text += " belongs to " + node + " itself, or to Tide";
  } else {
    text += " lies where jobs may not go on " + node;
  }
  text += "; jobs may use";
  const std::set<std::string> roots(rules.roots.begin(), rules.roots.end());
  for (const std::string& root : roots) {
    text += " " + root + ",";
  }
  if (!owner.home.empty() && !roots.contains(owner.home)) {
    text += " their owner's home " + owner.home + ",";
  }
  return Fail(ErrorCode::kPermissionDenied,
              text + " what the node's operators open (tide-agent --mount-root)");
}

}  // namespace

Result<SpecPath> ResolveSpecPath(const PathRules& rules,
                                 const Owner& owner,
                                 const std::string& asked,
                                 PathUse use,
                                 const std::string& node) {
  Grounds grounds;
  std::string answer;
  const int error = AsOwner(
      owner,
      [&](std::string&) {
        grounds = LookUp(rules, owner);
        return 0;
      },
      [&](std::string& text) { return Look(grounds, asked, use, text); },
      answer);
  if (error == ETIMEDOUT) {
    return Fail(ErrorCode::kUnavailable, asked + " does not answer on " + node);
  }
  if (error != 0) {
    auto failed = FailErrno(asked + " cannot be used by " + Describe(owner) + " on " + node, error);
    if (error == EIO || error == ESTALE || error == ENOTCONN) {
      return Fail(ErrorCode::kUnavailable, failed.error().message);
    }
    return failed;
  }
  if (answer.empty() || answer.front() != kFine) {
    const Verdict verdict = answer.empty() ? kOutside : static_cast<Verdict>(answer.front());
    return Refuse(rules, owner, asked, verdict, node);
  }
  return ParseAnswer(std::string_view(answer).substr(1));
}

Result<Fd> OpenResolved(const std::string& path, uint64_t device, uint64_t inode) {
  const auto replaced = [&] {
    return Fail(ErrorCode::kConflict, path + " was replaced while the task started");
  };
  Fd fd(OpenAs(path, O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!fd.valid() && (errno == ELOOP || errno == ENOENT || errno == ENOTDIR)) {
    return replaced();
  }
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return FailErrno("cannot open " + path, errno);
  }
  if (IdOf(info) != FileId{device, inode}) {
    return replaced();
  }
  return fd;
}

}  // namespace tide::agent
