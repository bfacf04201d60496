#include "agent/init/saver_wait.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr Duration kLongest = Duration::Seconds(35);

bool IsLocked(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return fd.valid() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

bool SaverWait::IsOn() {
  const int64_t now = MonotonicNanos();
  if (now >= ends_at_ || run_dir_.empty()) {
    return false;
  }
  ends_at_ = std::min(ends_at_, now + kLongest.nanos());
  for (size_t rank = 0; rank < ranks_; ++rank) {
    if (IsLocked(run_dir_ + "/saver-" + std::to_string(rank) + ".lock")) {
      return true;
    }
  }
  return false;
}

}  // namespace tide::agent
