#pragma once
// Decides which tasks' output the node keeps no longer: that of tasks that are gone, by age and by
// the size of all of it, the oldest first. A task that may still run is never chosen.
//
// Threads: looks on a thread of its own, as there may be many files; `discard` is called there.

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace tide::agent {

struct LogLimits {
  uint64_t total_bytes = 0;  // 0 = any
  Duration age;              // since the task wrote its last; zero = any
};

// The folder of a task that is gone.
struct OldLogs {
  std::string key;
  uint64_t bytes = 0;
  Instant at;  // of the newest file
  bool operator==(const OldLogs&) const = default;
};

// Folders of tasks that are gone: those without task.json (docs/rank-protocol.md section 3).
[[nodiscard]] std::vector<OldLogs> ListOldLogs(const std::string& tasks_folder);
// Keys of what is to go.
[[nodiscard]] std::vector<std::string> ChooseExpired(std::vector<OldLogs> logs,
                                                     const LogLimits& limits,
                                                     Instant now);

class LogRetention {
 public:
  static constexpr int64_t kLookEveryMs = 600'000;

  // Looks at once and then every ten minutes; not at all without limits.
  LogRetention(std::string tasks_folder,
               LogLimits limits,
               std::function<void(std::vector<std::string> keys)> discard);
  ~LogRetention();
  LogRetention(const LogRetention&) = delete;
  LogRetention& operator=(const LogRetention&) = delete;

 private:
  void Run();

  const std::string folder_;
  const LogLimits limits_;
  const std::function<void(std::vector<std::string>)> discard_;
  Mutex mutex_;
  Condition changed_;
  bool ending_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses the rest
};

}  // namespace tide::agent
