#pragma once
// The cgroup of a task in every hierarchy that is mounted (v1, v2, or both): who is in it, kill
// all, remove, what it uses, and how often the kernel killed for memory. `path` is relative to each
// hierarchy's root, as "/tide/1.1.0-…". Creating it and setting limits is the OCI runtime's work.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

// Reports whether v1 and v2 are both mounted: OCI runtimes use v1 then.
[[nodiscard]] bool HasBothCgroups();
// Returns the folder of `path` in v2, whether it exists or not; "" where v2 is not mounted.
[[nodiscard]] std::string UnifiedCgroup(const std::string& path);
// Moves the mount of v2 to the folder `place` where v1 is mounted, too: crun (1.8) refuses to run
// beside both. The caller has a mount namespace of its own. Errors: kSystem.
[[nodiscard]] Status MoveUnifiedCgroup(const std::string& place);
// Moves this process into `path` of v2, where no OCI runtime does so. Errors: kNotFound when that
// does not exist; kSystem, as its rules would not hold for the process.
[[nodiscard]] Status EnterUnifiedCgroup(const std::string& path);

// The existing folders of `path`.
[[nodiscard]] std::vector<std::string> CgroupFolders(const std::string& path);
// Living processes in it and below it, each once.
[[nodiscard]] std::vector<int32_t> CgroupProcesses(const std::string& path);
void KillCgroup(const std::string& path);
// True when nothing of it is left. False: some process is still in it.
[[nodiscard]] bool RemoveCgroup(const std::string& path);
// Kills for memory so far; nothing when the cgroup does not exist or does not count.
[[nodiscard]] std::optional<uint64_t> CgroupOomKills(const std::string& path);

struct CgroupUse {
  uint64_t memory_bytes = 0;  // without pages of files that the kernel may drop
  uint64_t cpu_ns = 0;        // of all processors, since it was made
};
// What is used in it and below it; nothing when it does not exist or does not count both.
[[nodiscard]] std::optional<CgroupUse> ReadCgroupUse(const std::string& path);

}  // namespace tide::agent
