#pragma once
// `tide-init run`: PID 1 of the container, or the top of the task's processes without one.
//
// Invariants:
// 1. It ends only when it has no child left, and every exit of a rank was reported before.
// 2. Losing the supervisor (socket closed, or its death) kills everything at once.
// 3. After a first failed rank the others end within failure_grace + term_grace.

namespace tide::agent {

// Returns the exit code of the process.
int RunInit();

}  // namespace tide::agent
