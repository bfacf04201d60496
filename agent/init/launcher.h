#pragma once
// Starting tide-init for a task: its descriptors, and in a container the root file system and the
// OCI runtime.
//
// The root is an overlay of "/", or of an image, whose upper layer is a small tmpfs: mount points
// can be made in it without touching the host. It is mounted in the supervisor's own mount
// namespace, so it is gone with the last process of the task, whatever happened.

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/runtime/task_config.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct Launch {
  pid_t child = 0;       // tide-init, or the OCI runtime that creates it and then ends
  Fd socket;             // to tide-init
  Fd messages;           // stderr of the OCI runtime and of tide-init
  std::vector<Fd> logs;  // read ends: stdout and stderr of the first rank, of the second, …
};

// To be called while this process has one thread; the current folder is the task's.
// Errors: what is missing on this node, for the user.
[[nodiscard]] Result<Launch> LaunchTask(const TaskConfig& config);

// Host pid of the container's PID 1, once the OCI runtime has ended well; 0 when unknown.
[[nodiscard]] pid_t ContainerPid();
// Starts `runc delete --force`; returns its pid, 0 when it could not be started.
[[nodiscard]] pid_t StartContainerDelete(const TaskConfig& config);
// True when no mount of the root is left in this namespace.
[[nodiscard]] bool UnmountRoot();

}  // namespace tide::agent
