#pragma once
// Starting one rank: its own session, environment, user, work folder and log pipes.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "agent/runtime/task_config.h"

namespace tide::agent {

// Returns the pid, or -errno of fork. The child reports its start itself (so that the receiver
// learns its pid from the kernel) and, if it cannot start, the reason; it then exits with
// kCannotStartCode.
//   drop_user: change to the task's user; off in a container, where tide-init already is that user.
[[nodiscard]] pid_t StartRank(const TaskConfig& config, size_t index, bool drop_user);

inline constexpr int kCannotStartCode = 127;

// Parts of it, for whatever else starts in a task.

// Every signal as a program expects it.
void ResetSignals();
// True when all of the new identity is in place.
[[nodiscard]] bool BecomeUser(uint32_t uid, uint32_t gid);
// `env` over a default PATH, and the tag by which the task's processes are found; nothing else.
void SetEnvironment(const std::map<std::string, std::string>& env, const std::string& tag);

}  // namespace tide::agent
