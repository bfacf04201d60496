#pragma once
// What a task's folder and processes say when its supervisor is not asked or does not exist.

#include <optional>
#include <string>

#include "agent/runtime/task_config.h"
#include "agent/runtime/task_status.h"
#include "common/base/result.h"

namespace tide::agent {

// exit.json, if it is there.
[[nodiscard]] std::optional<TaskStatus> ReadExit(const std::string& folder);

// Waits for a supervisor that is about to come: its agent was killed while it started the task.
// Until supervisor.json is there, or task.json is two seconds old.
void AwaitSupervisor(const std::string& folder);

// True while the supervisor lives. When there has never been one, marks the folder so that one that
// comes late will end: after `false` it is settled.
[[nodiscard]] bool SupervisorLives(const std::string& folder);

// The status of a task whose supervisor died without exit.json. Kills what is left of the task,
// waiting up to 2 s for its end.
[[nodiscard]] TaskStatus EndLostTask(const std::string& folder);

// Kills every process of the task, its supervisor included, and removes its cgroup.
// True when nothing is left; waits up to 2 s for that.
[[nodiscard]] bool KillTask(const std::string& key, const std::string& folder);

}  // namespace tide::agent
