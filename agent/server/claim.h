#pragma once
// One agent for one state folder, and one of a name on a machine. A second one would take the
// first one's tasks over, or end them as tasks that nobody knows.

#include <vector>

#include "agent/server/config.h"
#include "common/base/file.h"

namespace tide::agent {

// Holds both for as long as the descriptors live; the kernel lets go of them when a process dies.
//   Errors: kConflict, naming the process that has them; those of files.
[[nodiscard]] Result<std::vector<Fd>> ClaimNode(const AgentConfig& config);

}  // namespace tide::agent
