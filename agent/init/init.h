#pragma once
// `tide-init run`: PID 1 of the container, or the top of the task's processes without one.
//
// Invariants:
// 1. It ends only when it has no child left, and every exit of a rank was reported before.
// 2. Losing the supervisor (socket closed, or its death) kills everything at once.
// 3. After a first failed rank the others end within failure_grace + term_grace.

#include "agent/runtime/task_config.h"

namespace tide::agent {

// Returns the exit code of the process. Its descriptors are those of messages.h, its configuration
// is the file kConfigFd.
int RunInit();
// Does that in a process that knows its task: a child of the supervisor, where nothing is isolated.
int RunInit(TaskConfig config);

}  // namespace tide::agent
