#pragma once
// Starting the supervisor of a task from a process with many threads.

#include <string>

#include "common/base/result.h"

namespace tide::agent {

// Runs `tide-init supervise folder` and waits until the supervisor has made itself a daemon.
// Errors: kSystem with what it said; kDeadlineExceeded after 10 s.
[[nodiscard]] Status SpawnSupervisor(const std::string& init_path, const std::string& folder);

}  // namespace tide::agent
