#pragma once
// How a task stands: what the control socket answers and what status.json and exit.json hold.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

// A rank that saved and stopped on request; not a failure.
inline constexpr int kSuspendedExitCode = 85;

struct RankStatus {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  int32_t pid = 0;  // as the host sees it; 0 = not started
  bool exited = false;
  int32_t code = 0;    // exit code, when it ended by itself
  int32_t signal = 0;  // the signal that ended it, or 0
  bool oom = false;    // the kernel killed a process of the task for memory, and this rank failed
  bool core = false;
  bool operator==(const RankStatus&) const = default;

  [[nodiscard]] bool failed() const {
    return exited && (signal != 0 || (code != 0 && code != kSuspendedExitCode));
  }
};

struct TaskStatus {
  bool started = false;  // every rank was started
  std::vector<RankStatus> ranks;
  bool released = false;  // proven: no process, cgroup or mount of the task is left
  bool cut_off = false;   // ended because its node's lease (contact.h) ran out
  std::string error;      // why it could not start, or what keeps it from ending
  std::string stuck;  // what was killed and does not die: it hangs in the kernel; empty = nothing
  int64_t finished_at = 0;  // unix ns; 0 = still there

  // Known to Runtime::Query only, not part of the JSON.
  bool supervisor_alive = false;
  bool finished = false;   // exit.json is there: `ranks` is final
  bool lost = false;       // the supervisor died without a verdict: exits are unknown
  bool unstarted = false;  // of a lost one: there never was a supervisor, so nothing of it ran
  bool operator==(const TaskStatus&) const = default;
};

// One line, without the newline.
[[nodiscard]] std::string TaskStatusToJson(const TaskStatus& status);
// Errors: kCorrupt.
[[nodiscard]] Result<TaskStatus> TaskStatusFromJson(std::string_view text);

}  // namespace tide::agent
