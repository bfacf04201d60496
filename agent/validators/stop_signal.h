#pragma once
// A wish that the validators which run end at once. Any thread raises it; it stays raised.

#include <sys/eventfd.h>

#include <atomic>

#include "common/base/file.h"

namespace tide::validators {

class StopSignal {
 public:
  StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Raise() {
    raised_ = true;
    ::eventfd_write(event_.get(), 1);
  }
  [[nodiscard]] bool raised() const { return raised_; }
  // Readable once it is raised; -1 where the system gave none, and then it is seen between two
  // validators.
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  Fd event_;
  std::atomic<bool> raised_{false};
};

}  // namespace tide::validators
