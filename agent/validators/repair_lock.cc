#include "agent/validators/repair_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace tide::validators {
namespace {

constexpr Duration kEndsAfterKill = Duration::Seconds(10);

// Reports whether somebody holds the lock of the file, or that cannot be found out.
bool IsHeld(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return errno != ENOENT;
  }
  return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

// Reports whether the process has the file open. By name, as a look at a file may hang.
bool HasOpen(pid_t pid, const std::string& file) {
  std::error_code error;
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlink(at->path().c_str(), target.data(), target.size());
    if (size > 0 && std::string_view(target.data(), static_cast<size_t>(size)) == file) {
      return true;
    }
  }
  return false;
}

// Kills the process and its group, if it still has the file open.
void KillHolder(pid_t pid, const std::string& file) {
  // From here on its number may become another's, but not what this descriptor means.
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid() || !HasOpen(pid, file)) {
    return;
  }
  const pid_t group = ::getpgid(pid);
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, 0) != 0) {
    return;
  }
  if (group > 1 && group != ::getpgrp()) {
    ::kill(-group, SIGKILL);
  }
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

void KillHolders(const std::string& path) {
  std::error_code error;
  const std::string file = std::filesystem::canonical(path, error).string();
  if (error) {
    return;
  }
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool is_process =
        std::ranges::all_of(name, [](char each) { return each >= '0' && each <= '9'; });
    const pid_t pid = is_process ? static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10)) : 0;
    if (pid > 0 && pid != ::getpid() && HasOpen(pid, file)) {
      KillHolder(pid, file);
    }
  }
}

}  // namespace

std::string TookTooLong(bool stuck) {
  return "did not end in " + FormatDuration(kRepairTime) +
         (stuck ? " and cannot be killed: stuck in the kernel" : "");
}

RepairLock::RepairLock(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

RepairLock::~RepairLock() {
  if (fd_.valid()) {
    ::unlink(path_.c_str());
  }
}

Result<RepairLock> RepairLock::Take(const std::string& path, Duration limit) {
  // Another file than that of a repair which is over: what that left running may have it open.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return FailErrno("cannot remove " + path, errno);
  }
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return FailErrno("cannot make " + path, errno);
  }
  RepairLock lock(path, std::move(file));
  TIDE_TRY(WriteAll(lock.fd(), std::to_string(MonotonicNanos() + limit.nanos())));
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    return FailErrno("cannot lock " + path, errno);
  }
  return lock;
}

void LeftRepair::SetDeadline(int64_t now_ns) {
  constexpr size_t kNumberMax = 32;
  const int64_t most = now_ns + kRepairTime.nanos();
  const std::string text = ReadFile(path_, kNumberMax).value_or("");
  const int64_t written = std::strtoll(text.c_str(), nullptr, 10);
  deadline_ns_ = written > 0 ? std::min(written, most) : most;
}

bool LeftRepair::End() {
  over_ = true;
  ::unlink(path_.c_str());
  return false;
}

bool LeftRepair::Tend(int64_t now_ns) {
  if (over_ || !IsHeld(path_)) {
    return over_ ? false : End();
  }
  if (deadline_ns_ == 0) {
    SetDeadline(now_ns);
  }
  if (now_ns < deadline_ns_) {
    return true;
  }
  if (killed_ns_ != 0 && now_ns - killed_ns_ >= kEndsAfterKill.nanos()) {
    failure_ = TookTooLong(true);
    return End();
  }
  killed_ns_ = killed_ns_ == 0 ? now_ns : killed_ns_;
  failure_ = TookTooLong(false);
  KillHolders(path_);  // each time: one of them may have started another
  return true;
}

}  // namespace tide::validators
