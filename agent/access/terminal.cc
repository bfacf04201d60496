#include "agent/access/terminal.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace tide::agent {
namespace {

constexpr unsigned kPtmxMajor = 5;
constexpr unsigned kPtmxMinor = 2;

// The path leads through a task's file system: look before touching what may be anything.
bool IsDoorOfTerminals(int place) {
  struct stat info{};
  return ::fstat(place, &info) == 0 && S_ISCHR(info.st_mode) && major(info.st_rdev) == kPtmxMajor &&
         minor(info.st_rdev) == kPtmxMinor;
}

}  // namespace

Result<Terminal> OpenTerminal(const std::string& ptmx,
                              uint32_t uid,
                              uint32_t gid,
                              WindowSize size) {
  const Fd place(::open(ptmx.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!place.valid()) {
    return FailErrno("cannot make a terminal in the task (" + ptmx + ")", errno);
  }
  if (!IsDoorOfTerminals(place.get())) {
    return Fail(ErrorCode::kSystem, "the task has no terminals: " + ptmx + " is something else");
  }
  const std::string opened = "/proc/self/fd/" + std::to_string(place.get());
  Terminal terminal;
  terminal.master = Fd(::open(opened.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  const int unlocked = 0;
  if (!terminal.master.valid() || ::ioctl(terminal.master.get(), TIOCSPTLCK, &unlocked) != 0) {
    return FailErrno("cannot make a terminal in the task", errno);
  }
  // By the master and not by its name, which means something else outside of the container.
  terminal.slave = Fd(::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.slave.valid()) {
    return FailErrno("cannot open the task's terminal", errno);
  }
  if (::geteuid() == 0 && ::fchown(terminal.slave.get(), uid, gid) != 0) {
    return FailErrno("cannot give the terminal to the job's user", errno);
  }
  SetWindowSize(terminal.master.get(), size);
  return terminal;
}

void SetWindowSize(int terminal, WindowSize size) {
  const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(terminal, TIOCSWINSZ, &window);
}

}  // namespace tide::agent
