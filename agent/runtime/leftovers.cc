#include "agent/runtime/leftovers.h"

#include <csignal>
#include <filesystem>
#include <sstream>
#include <vector>

#include "agent/runtime/processes.h"
#include "agent/runtime/supervised_runtime.h"
#include "agent/runtime/task_config.h"
#include "agent/runtime/task_folder.h"
#include "agent/runtime/task_state.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

constexpr size_t kCommandLineMax = 64U << 10U;

// The folder that a living supervisor of a task was started for; "" = the process is none.
std::string SupervisedFolder(const ProcessInfo& process) {
  if (process.dead() || process.name != kSupervisorName) {
    return "";
  }
  const auto text = ReadFile("/proc/" + std::to_string(process.pid) + "/cmdline", kCommandLineMax);
  std::istringstream words(text.value_or(""));
  std::string program;
  std::string mode;
  std::string folder;
  std::getline(words, program, '\0');
  std::getline(words, mode, '\0');
  std::getline(words, folder, '\0');
  return mode == "supervise" ? folder : "";
}

// Two clusters on one machine have tasks of one key. A folder that is gone says nothing any more.
bool MayUse(const std::string& folder, const std::string& run_dir) {
  const auto config = ReadTaskConfig(folder);
  return !config || config->run_dir == run_dir;
}

}  // namespace

Result<size_t> CleanLeftovers(const std::string& state_dir) {
  TIDE_ASSIGN(const auto runtime, SupervisedRuntime::Open(state_dir));
  TIDE_ASSIGN(const std::vector<std::string> keys, runtime->List());
  std::string stuck;
  for (const std::string& key : keys) {
    const std::string folder = state_dir + "/tasks/" + key;
    // First settle a supervisor that is just coming up, then kill all at once.
    static_cast<void>(SupervisorLives(folder));
    if (!KillTask(key, folder) || !runtime->Remove(key, true)) {
      stuck += " " + key;
    }
  }
  if (!stuck.empty()) {
    return Fail(ErrorCode::kSystem, "these tasks could not be ended:" + stuck);
  }
  return keys.size();
}

Status EndForgottenTask(const std::string& state_dir,
                        const std::string& key,
                        const std::string& run_dir) {
  const std::string ours = state_dir + "/tasks/" + key;
  for (const ProcessInfo& process : AllProcesses()) {
    const std::string folder = SupervisedFolder(process);
    if (folder == ours) {
      ::kill(process.pid, SIGKILL);  // its file is gone, by which KillTask would find it
    } else if (std::filesystem::path(folder).filename() == key && MayUse(folder, run_dir)) {
      return Fail(ErrorCode::kConflict,
                  "task " + key + " of this node runs in " + folder +
                      ", of another state folder: name that one with --state, or end it with "
                      "kill " +
                      std::to_string(process.pid));
    }
  }
  if (!KillTask(key, ours)) {
    return Fail(ErrorCode::kSystem,
                "task " + key + ", of which " + state_dir +
                    " holds nothing, has processes that do not end");
  }
  return {};
}

}  // namespace tide::agent
