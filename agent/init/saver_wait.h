#pragma once
// How long the end of a task waits for the processes that write its ranks' checkpoints
// (docs/adr/0009). Each holds the lock of a file of the run folder while it lives, and ends soon
// after its rank. Not thread safe.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace tide::agent {

inline constexpr const char* kRunDirInContainer = "/run/tide";

class SaverWait {
 public:
  // run_dir: with the locks `saver-N.lock`, as this process sees it; ranks: of the task on this
  // node.
  SaverWait(std::string run_dir, size_t ranks) : run_dir_(std::move(run_dir)), ranks_(ranks) {}

  // True while one lives, for 35 s after the first look: a saver whose rank has gone waits
  // 30 s for other ranks, and then has little to do.
  [[nodiscard]] bool IsOn();
  // The task was told to end: nothing is waited for any more.
  void End() { ends_at_ = 0; }

 private:
  const std::string run_dir_;
  const size_t ranks_;
  int64_t ends_at_ = std::numeric_limits<int64_t>::max();  // MonotonicNanos()
};

}  // namespace tide::agent
