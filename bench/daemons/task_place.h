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
  TaskPlace();
  ~TaskPlace();  // with everything in it
  TaskPlace(const TaskPlace&) = delete;
  TaskPlace& operator=(const TaskPlace&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Holds the pipe, `up`: who is there writes one byte into it. Anybody may.
  [[nodiscard]] std::string shared() const { return path_ + "/shared"; }
  // CLOCK_MONOTONIC at which so many had said so. Aborts when they do not.
  [[nodiscard]] int64_t WaitUntilUp(size_t programs) const;

 private:
  std::string path_ = "/var/tmp/tide-bench-XXXXXX";
  Fd up_;
};

}  // namespace tide::bench
