#pragma once
// `tide-init supervise <task folder>`: the parent of one task, alone in its session, so that it
// lives on when the agent dies. It is the only writer of supervisor.json, status.json, exit.json
// and logs/ of its folder.
//
// Invariants:
// 1. exit.json is written only when no process, cgroup or mount of the task is left.
// 2. If this process dies, tide-init and with it the task die too.
// 3. Nothing a rank or a client does makes it wait.

#include <string>

namespace tide::agent {

// Returns when the daemon says it is ready: supervisor.json is written and control.sock listens.
// The exit code of the process; on failure the reason is on stderr.
int RunSupervisor(const std::string& folder);

}  // namespace tide::agent
