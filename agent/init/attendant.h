#pragma once
// `tide-init attend`: stands beside one command that a person runs inside a task.

namespace tide::agent {

// Reads its ExecConfig, starts the command, and stays until nothing is left of it: the command and
// all it started end with the command itself, with the agent's end of the leash, or with the task.
// Returns the exit code of this process.
[[nodiscard]] int RunAttendant();

}  // namespace tide::agent
