#pragma once
// The OCI bundle of a task: config.json (OCI runtime specification 1.0) for a container that runs
// tide-init as the job's user on a read-only view of the node's root file system.
//
// Invariants:
// 1. A container of a user other than root holds no capability, and none can be gained.
// 2. Nothing of the host is writable but the mounts the task names.
// 3. The host's /run and /tmp, with other programs' sockets, are not seen, nor is anything of the
//    masked folders but what the task mounts there.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/runtime/task_config.h"
#include "common/base/result.h"

namespace tide::agent {

// Where tide-init is seen in a container.
inline constexpr const char* kInitInContainer = "/run/tide-init";

// config.json. `rootfs`: folder of the mounted root; `host_mounts`: further file systems of the
// node that belong to its root view, as "/usr" on its own partition.
// Errors: kInvalidArgument naming a mount source or device that does not exist.
[[nodiscard]] Result<std::string> OciConfig(const TaskConfig& config,
                                            const std::string& rootfs,
                                            const std::vector<std::string>& host_mounts);

struct OciLimit {
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// process.json of a further process in that container, `tide-init attend`: the user, the groups,
// the lack of capabilities and of new privileges of the first one. limits: by name, as
// "RLIMIT_NOFILE".
[[nodiscard]] std::string OciExecProcess(const TaskConfig& config,
                                         const std::map<std::string, OciLimit>& limits);

// Mount points of local disks below "/", apart from those a container must not see.
[[nodiscard]] std::vector<std::string> HostMounts();

}  // namespace tide::agent
