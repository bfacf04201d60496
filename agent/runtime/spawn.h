#pragma once
// Starting the supervisor of a task from a process with many threads.

#include <sys/types.h>

#include <string>

#include "common/base/result.h"

namespace tide::agent {

// Runs `tide-init supervise folder`, in a session of its own and with the task's tag in its
// environment, and waits until it is ready. Returns its pid: it is a child of this process, whom
// the caller waits for when it has ended, but nothing of it ends with this process. Errors: kSystem
// with what it said; kDeadlineExceeded after 6 s.
[[nodiscard]] Result<pid_t> SpawnSupervisor(const std::string& init_path,
                                            const std::string& folder,
                                            const std::string& tag);

}  // namespace tide::agent
