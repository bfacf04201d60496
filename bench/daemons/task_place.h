#pragma once
// A folder in which tasks of the agent's runtime run for a benchmark, and a pipe in it by which
// their programs say that they are there.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/file.h"

namespace tide::bench {

class TaskPlace {
 public:
  // In a new folder of this one, a disk's by default.
  explicit TaskPlace(const std::string& root = "/var/tmp");
  ~TaskPlace();  // with everything in it
  TaskPlace(const TaskPlace&) = delete;
  TaskPlace& operator=(const TaskPlace&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // In memory, for what an agent keeps there by default: pages and sockets of ranks.
  [[nodiscard]] const std::string& memory() const { return memory_; }
  // Holds the pipe, `up`: who is there writes one byte into it. And `never`, a pipe that nobody
  // writes into: opening it for reading waits, without another program. Anybody may write here, as
  // ranks run as another user.
  [[nodiscard]] std::string shared() const { return path_ + "/shared"; }
  // CLOCK_MONOTONIC at which so many had said so. Aborts when they do not.
  [[nodiscard]] int64_t WaitUntilUp(size_t programs) const;

 private:
  std::string path_;
  std::string memory_ = "/dev/shm/tide-bench-XXXXXX";
  Fd up_;
};

}  // namespace tide::bench
