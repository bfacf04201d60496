#pragma once
// The CPUs that this process may use, and threads that stay on one of them.

#include <vector>

namespace tide::validators {

// Returns their numbers, ascending; none with errno set when the kernel does not tell.
[[nodiscard]] std::vector<int> AllowedCpus();

// Keeps the calling thread on one CPU. Returns whether that worked.
[[nodiscard]] bool PinTo(int cpu);

}  // namespace tide::validators
