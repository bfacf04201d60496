#include "agent/fabric/halt.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "common/base/check.h"

namespace tide::allreduce {

Result<std::unique_ptr<Halt>> Halt::Make(std::atomic<uint32_t>& stop) {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) {
    return FailErrno("cannot make an event", errno);
  }
  return std::unique_ptr<Halt>(new Halt(std::move(event), stop));
}

void Halt::Raise(const Error& error) {
  {
    const MutexLock lock(mutex_);
    if (!first_) {
      first_ = error;
    }
  }
  stop_.store(1, std::memory_order_release);
  TIDE_CHECK(::eventfd_write(event_.get(), 1) == 0 || errno == EAGAIN, "an event takes a one");
}

std::optional<Error> Halt::raised() const {
  const MutexLock lock(mutex_);
  return first_;
}

}  // namespace tide::allreduce
