#pragma once
// The system calls a container may not make: those that act on the whole machine or open old
// holes of the kernel. Everything else is allowed, as training code uses most of the rest.

#include <nlohmann/json_fwd.hpp>

namespace tide::agent {

// Returns the "seccomp" object of an OCI configuration. Forbidden calls fail with EPERM, clone3
// with ENOSYS: its flags lie in memory, where no filter sees them, and libraries take clone then.
[[nodiscard]] nlohmann::json SeccompProfile();

}  // namespace tide::agent
