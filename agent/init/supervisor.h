#pragma once
// `tide-init supervise <task folder>`: the parent of one task. Its session and descriptors are its
// own, so it lives on when the agent, whose child it is, dies. It is the only writer of
// supervisor.json, status.json, exit.json and logs/ of its folder.
//
// Invariants:
// 1. exit.json is written only when no process, cgroup or mount of the task is left.
// 2. If this process dies, tide-init and with it the task die too.
// 3. Nothing a rank or a client does makes it wait.

#include <string>

namespace tide::agent {

// Says kSupervisorReady on stderr once supervisor.json is written and control.sock listens, or why
// it cannot. Returns the exit code of the process, when the task has ended.
int RunSupervisor(const std::string& folder);

// Sends what this supervisor prints to supervisor.log from here on; before, it goes nowhere. Most
// never print.
void OpenErrorLog();

}  // namespace tide::agent
