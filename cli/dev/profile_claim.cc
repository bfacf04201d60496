#include "cli/dev/profile_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tide::cli {
namespace {

constexpr std::string_view kServerKey = "server: ";

// True while `path` leads to the open file: between opening and locking it, its owner may have
// removed it.
bool IsAt(int fd, const std::string& path) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

Result<Fd> OpenOwn(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info{};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return FailErrno("cannot write the profile " + path + "; name another with TIDE_DEV_PROFILE",
                     errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return Fail(ErrorCode::kConflict,
                "the profile " + path +
                    " is not a file of ours alone; remove it, or name another with "
                    "TIDE_DEV_PROFILE");
  }
  return file;
}

// What the owner wrote on the first line; "another tide dev" while it is about to.
std::string ServerIn(const std::string& path) {
  const auto text = ReadFile(path, 4096);
  if (!text || !text->starts_with(kServerKey)) {
    return "another tide dev";
  }
  return text->substr(kServerKey.size(), text->find('\n') - kServerKey.size());
}

}  // namespace

Result<ProfileClaim> ProfileClaim::Take(const std::string& path,
                                        const std::string& server,
                                        const std::string& token) {
  ProfileClaim claim;
  claim.path_ = path;
  while (true) {
    TIDE_ASSIGN(Fd file, OpenOwn(path));
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      claim.other_server_ = ServerIn(path);
      return claim;
    }
    if (!IsAt(file.get(), path)) {
      continue;
    }
    const std::string text = std::string(kServerKey) + server + "\ntoken: " + token + "\n";
    if (::ftruncate(file.get(), 0) != 0) {
      return FailErrno("cannot write the profile " + path, errno);
    }
    TIDE_TRY(WriteAll(file.get(), text));
    claim.file_ = std::move(file);
    return claim;
  }
}

void ProfileClaim::Release() {
  if (ours() && IsAt(file_.get(), path_)) {
    ::unlink(path_.c_str());
  }
  file_.Close();
}

}  // namespace tide::cli
