#pragma once
// Starting one rank: its own session, environment, user, work folder and log pipes.

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "agent/runtime/task_config.h"

namespace tide::agent {

// Returns the pid, or -errno of fork. The child reports its start itself (so that the receiver
// learns its pid from the kernel) and, if it cannot start, the reason; it then exits with
// kCannotStartCode.
//   drop_user: change to the task's user; off in a container, where tide-init already is that user.
[[nodiscard]] pid_t StartRank(const TaskConfig& config, size_t index, bool drop_user);

inline constexpr int kCannotStartCode = 127;

}  // namespace tide::agent
