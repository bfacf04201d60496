#pragma once
// Secrets that a person keeps in a file.

#include <string>

#include "common/base/result.h"

namespace tide {

// Reads a secret of 16 characters or more, without the blanks and ends of lines behind it.
//   what: "the cluster token", for messages.
//   Errors: kInvalidArgument where it is shorter, or others than the owner may read the file; those
//   of files.
[[nodiscard]] Result<std::string> ReadSecretFile(const std::string& what, const std::string& path);

}  // namespace tide
