#include "agent/runtime/leftovers.h"

#include "agent/runtime/supervised_runtime.h"
#include "agent/runtime/task_state.h"

namespace tide::agent {

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

}  // namespace tide::agent
