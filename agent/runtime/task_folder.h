#pragma once
// Names inside a task's folder, and who the supervisor of a task is. See docs/rank-protocol.md
// section 3.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

inline constexpr const char* kTaskFile = "task.json";
inline constexpr const char* kSupervisorFile = "supervisor.json";
inline constexpr const char* kStatusFile = "status.json";
inline constexpr const char* kExitFile = "exit.json";
inline constexpr const char* kReportFile = "report.json";
inline constexpr const char* kControlSocket = "control.sock";
inline constexpr const char* kLogsFolder = "logs";
// Where the supervisor of a container mounts a tmpfs with the runtime's files, for itself alone:
// from the task's folder, one for all tasks of an agent.
inline constexpr const char* kBundleFolder = "../../bundle";
// Left by an agent that gave the task up before its supervisor was there: a supervisor that comes
// late sees it and ends. Each side writes its own file first and then looks for the other's.
inline constexpr const char* kAbandonedFile = "abandoned";
// Left by an agent before it starts a person's command beside the ranks: the task has processes
// that are none of its supervisor's.
inline constexpr const char* kVisitedFile = "visited";
// What `ps -A` calls the supervisor of a task.
inline constexpr const char* kSupervisorName = "tide-supervisor";
// Sent by a supervisor to the agent that starts it, once it can be found by its folder.
inline constexpr const char* kSupervisorReady = "ready";
// In the environment of every process of a task; its value is TaskTag().
inline constexpr const char* kTagVariable = "TIDE_TASK";

// A process, told apart from a later one with the same pid and from one before a reboot.
struct ProcessIdentity {
  int32_t pid = 0;
  uint64_t start_ticks = 0;
  std::string boot_id;
  std::string container;  // container id, or empty
};

[[nodiscard]] Result<ProcessIdentity> OwnIdentity();
// The path by which this process, root, opens what another one has at `path`.
[[nodiscard]] std::string SeenBy(const ProcessIdentity& process, const std::string& path);
[[nodiscard]] bool IsAlive(const ProcessIdentity& identity);
[[nodiscard]] std::string IdentityToJson(const ProcessIdentity& identity);
// Errors: kNotFound when there was never a supervisor, kCorrupt.
[[nodiscard]] Result<ProcessIdentity> ReadSupervisor(const std::string& folder);

// "<key>-<hash of the folder>": unique on the machine even with several agents on it.
[[nodiscard]] std::string TaskTag(const std::string& key, const std::string& folder);
// "/tide/<tag>", below the root of each cgroup hierarchy.
[[nodiscard]] std::string TaskCgroup(const std::string& key, const std::string& folder);
// "rank-00012"
[[nodiscard]] std::string LogName(uint32_t rank);

}  // namespace tide::agent
