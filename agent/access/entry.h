#pragma once
// The way into a running task: starts `tide-init attend` there, in a container through the OCI
// runtime (`runc exec`), else as a plain process with the job's user.
//
// Invariants:
// 1. What is started has the identity of the task's ranks: user, groups, no capabilities, no new
//    privileges, seccomp filter, namespaces and cgroup of its container.
// 2. It ends with the task: the container's kernel namespace, or the tag TIDE_TASK, takes it along.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/access/terminal.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct EntryRequest {
  uint32_t rank = 0;               // as the training script sees it: whose environment
  std::vector<std::string> argv;   // empty: a shell
  std::optional<WindowSize> size;  // a terminal of that size; nothing: pipes
  std::string terminal_type;       // TERM
};

struct Entered {
  pid_t pid = 0;  // a child of this process: the attendant, or the OCI runtime before it
  Fd leash;       // packets of exec_config.h; closing it ends what was started
  Fd input;       // with a terminal its master, and `output` the same again
  Fd output;
  Fd errors;      // invalid with a terminal
  Fd complaints;  // what the runtime says when it cannot enter
};

// folder: of the task (task_folder.h). The descriptors do not block.
// Errors: kNotFound for a task or rank that is not here, kConflict for one that does not run,
// kSystem.
[[nodiscard]] Result<Entered> EnterTask(const std::string& folder, const EntryRequest& request);

}  // namespace tide::agent
