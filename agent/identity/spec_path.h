#pragma once
// The paths of the node that a job's spec names: where they lead, whether its owner may use them,
// and whether anybody's job may. Every such path goes through ResolveSpecPath.
//
// What a path is counts, not how it is written: folders are compared by device and inode, so that
// links, `..` and bind mounts lead past nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "agent/identity/owner.h"
#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::agent {

struct PathRules {
  // Folders beneath which jobs may name paths; its owner's home is one more.
  std::vector<std::string> roots;
  // Tide's own: neither they nor what lies in them, unless a root lies in them, and the path in it.
  std::vector<std::string> guarded;
};

enum class PathUse {
  kRead,    // a folder or file
  kWrite,   // the same, written to
  kEnter,   // a folder that is at least read
  kFolder,  // a folder that is written to, and made where it is missing
};

struct SpecPath {
  std::string path;     // without links
  uint64_t device = 0;  // what lay there: who opens it later compares
  uint64_t inode = 0;
  std::vector<std::string> guarded_inside;  // Tide's own folders in it, relative: to be masked
};

// Looks at `asked` with the owner's rights, in at most 3 s (AsOwner).
//   node: whose name stands in errors.
//   Errors: kPermissionDenied where jobs may not go, kInvalidArgument for what is neither folder
//   nor file, kUnavailable when a file server is to blame, kSystem with the errno when it is
//   missing or the owner may not use it.
[[nodiscard]] Result<SpecPath> ResolveSpecPath(const PathRules& rules,
                                               const Owner& owner,
                                               const std::string& asked,
                                               PathUse use,
                                               const std::string& node);

// Opens a path that ResolveSpecPath found, as an O_PATH descriptor, if no part of it is a link now
// and it still is what it was. Errors: kConflict when it was replaced, kSystem.
[[nodiscard]] Result<Fd> OpenResolved(const std::string& path, uint64_t device, uint64_t inode);

}  // namespace tide::agent
