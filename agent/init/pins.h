#pragma once
// The mounts of a container, made before its runtime sees them.
//
// The agent looked at the sources with the owner's rights, the runtime mounts them by path as root:
// a link that was turned in between would open what the owner cannot reach, and a mount inside
// another would make the runtime create its place in a user's folder. So each source is opened
// once, with the owner's rights, compared, and mounted from there; what lies in another mount is
// put into that here, by descriptors, where it must exist.

#include "agent/runtime/task_config.h"

namespace tide::agent {

// Where they lie, from the folder a supervisor works in.
inline constexpr const char* kPinsFolder = "../../bundle/pins";

// Mounts what `config` names below kPinsFolder, in this process's mount namespace.
//   Returns `config` with only those mounts that the runtime is to make, from there, the outer ones
//   first. Errors: kConflict for a source that was replaced, kInvalidArgument for a mount whose
//   place in another is missing, kSystem.
[[nodiscard]] Result<TaskConfig> PinMounts(TaskConfig config);

}  // namespace tide::agent
