#include "agent/identity/owner.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "common/base/file.h"
#include "common/base/mutex.h"

namespace tide::agent {
namespace {

constexpr int kPatienceMillis = 3000;
constexpr int kDeathMillis = 100;
constexpr size_t kAnswerBytesMax = 65536;

// Of this thread alone: the C library's setgroups changes every thread.
void SetThreadGroups(const std::vector<uint32_t>& groups) {
  ::syscall(SYS_setgroups, groups.size(), groups.data());
}

[[noreturn]] void ActInChild(const Owner& owner,
                             const Action& first,
                             const Action& action,
                             int answer_fd) {
  std::string answer;
  if (const int error = first(answer); error != 0) {
    ::_exit(error);
  }
  if (::geteuid() == 0 && (::setgroups(owner.groups.size(), owner.groups.data()) != 0 ||
                           ::setresgid(owner.gid, owner.gid, owner.gid) != 0 ||
                           ::setresuid(owner.uid, owner.uid, owner.uid) != 0)) {
    ::_exit(EPERM);
  }
  const int error = action(answer);
  if (error == 0 && (answer.size() > kAnswerBytesMax || !WriteAll(answer_fd, answer))) {
    ::_exit(EIO);
  }
  ::_exit(error);
}

// Children that were killed while stuck in the kernel: they die when their file server answers.
// Thread rule: any.
class Dying {
 public:
  void Add(pid_t child) {
    const MutexLock lock(mutex_);
    children_.push_back(child);
  }

  void ReapTheDead() {
    const MutexLock lock(mutex_);
    std::erase_if(children_, [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; });
  }

 private:
  Mutex mutex_;
  std::vector<pid_t> children_ TIDE_GUARDED_BY(mutex_);
};

Dying& DyingChildren() {
  static Dying dying;
  return dying;
}

int AwaitChild(pid_t child) {
  const Fd done(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{done.get(), POLLIN, 0};
  const bool late = done.valid() && ::poll(&ended, 1, kPatienceMillis) == 0;
  if (late) {
    ::kill(child, SIGKILL);
    if (::poll(&ended, 1, kDeathMillis) != 1) {
      DyingChildren().Add(child);
      return ETIMEDOUT;
    }
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) {
    return ETIMEDOUT;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

// The pipe holds a whole answer, so the child never waits for this reader.
std::string ReadPipe(int fd) {
  std::string text(kAnswerBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n <= 0) {
      break;
    }
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace

std::string Describe(const Owner& owner) {
  return "user " + std::to_string(owner.uid) + " (the job's)";
}

OwnerEyes::OwnerEyes(const Owner& owner) {
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<size_t>(count) : 0);
  ::getgroups(static_cast<int>(groups_.size()), groups_.data());
  // The uid last: without root's the others could not be changed.
  SetThreadGroups(owner.groups);
  gid_ = ::setfsgid(owner.gid);
  uid_ = ::setfsuid(owner.uid);
}

OwnerEyes::~OwnerEyes() {
  ::setfsuid(static_cast<uid_t>(uid_));
  ::setfsgid(static_cast<gid_t>(gid_));
  SetThreadGroups(groups_);
}

int AsOwner(const Owner& owner, const Action& first, const Action& action, std::string& answer) {
  DyingChildren().ReapTheDead();
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return errno;
  }
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return errno;
  }
  if (child == 0) {
    ActInChild(owner, first, action, writer.get());
  }
  writer.Close();
  const int error = AwaitChild(child);
  answer = error == 0 ? ReadPipe(reader.get()) : std::string();
  return error;
}

}  // namespace tide::agent
