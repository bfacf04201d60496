#pragma once
// Other places at which this machine shows a folder: by a bind mount of it, of a folder around it,
// or of one inside it. What is guarded at one of them must be at all.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

struct MountAlias {
  std::string path;   // the other place
  std::string shows;  // the folder that is seen there: one of those asked for, or one inside it
  bool operator==(const MountAlias&) const = default;
};

// Finds the aliases of `folders` (absolute, without symlinks) and of what is mounted inside them,
// by a table of mounts as in /proc/self/mountinfo (proc_pid_mountinfo(5)). A mount on top of
// another may hide one: whoever uses them compares the files.
[[nodiscard]] std::vector<MountAlias> FindAliases(std::string_view mountinfo,
                                                  std::span<const std::string> folders);

// Returns `folders` and the aliases that this thread sees of them now. Errors: kSystem, when the
// table of mounts cannot be read.
[[nodiscard]] Result<std::vector<std::string>> WithAliases(std::vector<std::string> folders);

}  // namespace tide::agent
