#pragma once
// Keeps the ports of MASTER_PORT for the tasks they were given to. Tasks share the node's network,
// and one that binds the whole range would keep every other job of its node from starting. A BPF
// program on a task's cgroup of version 2 (BPF_CGROUP_INET4_BIND, _INET6_BIND in linux/bpf.h;
// kernel 4.17) refuses such a bind() with EPERM, other ports are free.

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace tide::agent {

struct KeptPorts {
  uint32_t low = 0;   // first of the range; 0 = nothing is kept
  uint32_t high = 0;  // last of it
  uint32_t own = 0;   // the task's own port; 0 = none
  bool operator==(const KeptPorts&) const = default;
};

// Reports whether this process could guard ports here, by a child that tries to bind a kept one.
// Errors: kPermissionDenied, kSystem, kUnavailable when the kernel lacks it or does not obey.
[[nodiscard]] Status CanGuardPorts();

// Forbids the processes in a cgroup of version 2, and below it, to bind TCP ports of the range but
// their own. It goes with the cgroup.
[[nodiscard]] Status GuardPorts(const std::string& cgroup_folder, const KeptPorts& ports);

}  // namespace tide::agent
