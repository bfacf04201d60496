#pragma once
// What the process was started with. Read before any thread exists.

#include <string>

namespace tide::cli {

// Value of an environment variable; "" when it is not set.
[[nodiscard]] std::string Env(const char* name);
// The working folder, absolute; "" when it is gone.
[[nodiscard]] std::string WorkingFolder();

}  // namespace tide::cli
