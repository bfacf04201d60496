#pragma once
// The system calls a container may not make: those that act on the whole machine or open old
// holes of the kernel. Everything else is allowed, as training code uses most of the rest.

#include <string_view>
#include <vector>

namespace tide::agent {

[[nodiscard]] const std::vector<std::string_view>& DeniedSyscalls();

}  // namespace tide::agent
