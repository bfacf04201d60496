#pragma once
// Where the mounts of a container land. An image is its user's: a link in it, such as /tmp to
// /proc/sys, would have Tide's own mount cover the kernel's files there. runc refuses some of
// those, crun few; Tide refuses all, with either.

#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

// Checks that no target lies, by links of the image, on the kernel's folders /proc, /sys and /dev,
// and that those themselves are no links. Missing parts of a path are as they will be made.
//   root: folder of the container's root, which nobody else changes.
//   targets: absolute paths in it.
//   Errors: kInvalidArgument with the link.
[[nodiscard]] Status CheckMountTargets(const std::string& root,
                                       const std::vector<std::string>& targets);

// Returns the targets of a config.json of OciConfig.
[[nodiscard]] std::vector<std::string> MountTargets(const std::string& config_json);

}  // namespace tide::agent
