#pragma once
// Taking a blob out of a layout that belongs to a user.

#include <cstdint>
#include <functional>
#include <string>

#include "agent/identity/owner.h"
#include "common/base/result.h"

namespace tide::agent {

// A pipe or device in its place would hold up whoever opens it.
[[nodiscard]] Status NeedFile(const std::string& path);

struct BlobCopy {
  std::string source;
  std::string part;  // written anew
  std::string digest;
  uint64_t size = 0;
};

// go_on: asked about every 16 MiB; false = leave off.
// Errors: kNotFound, kPermissionDenied, kInvalidArgument for what is no file, kCorrupt for one of
// another size or content, kSystem.
[[nodiscard]] Status CopyBlob(const BlobCopy& copy,
                              const Owner& owner,
                              const std::function<bool()>& go_on);

}  // namespace tide::agent
