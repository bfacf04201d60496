#include "agent/runtime/cgroup.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "agent/runtime/processes.h"
#include "common/base/file.h"

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

// Where file systems of that type are mounted.
std::vector<std::string> MountsOf(std::string_view wanted) {
  std::vector<std::string> roots;
  std::istringstream mounts(ReadFile("/proc/self/mounts").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string source;
    std::string target;
    std::string type;
    fields >> source >> target >> type;
    if (type == wanted && std::ranges::find(roots, target) == roots.end()) {
      roots.push_back(target);
    }
  }
  return roots;
}

std::vector<std::string> ReadHierarchyRoots() {
  std::vector<std::string> roots = MountsOf("cgroup");
  std::ranges::copy(MountsOf("cgroup2"), std::back_inserter(roots));
  return roots;
}

// Returns those of the first call: nobody mounts them anew while tasks run.
const std::vector<std::string>& HierarchyRoots() {
  static const std::vector<std::string> kRoots = ReadHierarchyRoots();
  return kRoots;
}

// `folder` and all below it, deepest last.
std::vector<std::string> Tree(const std::string& folder) {
  std::vector<std::string> found{folder};
  std::error_code ignored;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string current = found[i];
    for (auto it = fs::directory_iterator(current, ignored); it != fs::directory_iterator();
         it.increment(ignored)) {
      if (it->is_directory(ignored)) {
        found.push_back(it->path().string());
      }
    }
  }
  return found;
}

std::optional<uint64_t> CounterIn(const std::string& file, std::string_view name) {
  std::istringstream lines(ReadFile(file, 65536).value_or(""));
  std::string key;
  uint64_t value = 0;
  while (lines >> key >> value) {
    if (key == name) {
      return value;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> NumberIn(const std::string& file) {
  std::istringstream text(ReadFile(file, 256).value_or(""));
  uint64_t value = 0;
  return text >> value ? std::optional(value) : std::nullopt;
}

// The names of v2, then those of v1.
std::optional<uint64_t> MemoryIn(const std::string& folder) {
  auto all = NumberIn(folder + "/memory.current");
  const char* droppable = "inactive_file";
  if (!all) {
    all = NumberIn(folder + "/memory.usage_in_bytes");
    droppable = "total_inactive_file";
  }
  if (!all) {
    return std::nullopt;
  }
  return *all - std::min(*all, CounterIn(folder + "/memory.stat", droppable).value_or(0));
}

std::optional<uint64_t> CpuTimeIn(const std::string& folder) {
  if (const auto micros = CounterIn(folder + "/cpu.stat", "usage_usec")) {
    return *micros * 1000;
  }
  return NumberIn(folder + "/cpuacct.usage");
}

}  // namespace

bool HasBothCgroups() {
  return !MountsOf("cgroup").empty() && !MountsOf("cgroup2").empty();
}

std::string UnifiedCgroup(const std::string& path) {
  const std::vector<std::string> roots = MountsOf("cgroup2");
  return roots.empty() ? "" : roots.front() + path;
}

Status MoveUnifiedCgroup(const std::string& place) {
  if (!HasBothCgroups()) {
    return {};
  }
  const std::vector<std::string> roots = MountsOf("cgroup2");
  TIDE_TRY(MakeDirs(place, 0755));
  if (::mount(roots.front().c_str(), place.c_str(), nullptr, MS_MOVE, nullptr) != 0) {
    return FailErrno("cannot move the cgroups of version 2 at " + roots.front(), errno);
  }
  for (size_t i = 1; i < roots.size(); ++i) {
    ::umount2(roots[i].c_str(), MNT_DETACH);
  }
  return {};
}

Status EnterUnifiedCgroup(const std::string& path) {
  if (!HasBothCgroups()) {
    return {};
  }
  const std::string folder = UnifiedCgroup(path);
  if (::access(folder.c_str(), F_OK) != 0 && errno == ENOENT) {
    return Fail(ErrorCode::kNotFound, "there is no " + folder);
  }
  const Fd members(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!members.valid() || ::write(members.get(), "0", 1) != 1) {
    return FailErrno("cannot enter " + folder, errno);
  }
  return {};
}

std::vector<std::string> CgroupFolders(const std::string& path) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const std::string& root : HierarchyRoots()) {
    if (fs::is_directory(root + path, ignored)) {
      found.push_back(root + path);
    }
  }
  return found;
}

std::vector<int32_t> CgroupProcesses(const std::string& path) {
  std::set<int32_t> found;
  for (const std::string& top : CgroupFolders(path)) {
    for (const std::string& folder : Tree(top)) {
      std::istringstream pids(ReadFile(folder + "/cgroup.procs").value_or(""));
      for (int32_t pid = 0; pids >> pid;) {
        const Result<ProcessInfo> info = ReadProcess(pid);
        if (info && !info->dead()) {
          found.insert(pid);
        }
      }
    }
  }
  return {found.begin(), found.end()};
}

void KillCgroup(const std::string& path) {
  for (const std::string& folder : CgroupFolders(path)) {
    // cgroup v2 kills a whole tree at once, forks included.
    if (std::error_code ignored; fs::exists(folder + "/cgroup.kill", ignored)) {
      std::ofstream(folder + "/cgroup.kill") << "1";
    }
  }
  for (const int32_t pid : CgroupProcesses(path)) {
    ::kill(pid, SIGKILL);
  }
}

bool RemoveCgroup(const std::string& path) {
  bool gone = true;
  for (const std::string& top : CgroupFolders(path)) {
    std::vector<std::string> folders = Tree(top);
    for (auto it = folders.rbegin(); it != folders.rend(); ++it) {
      gone = (::rmdir(it->c_str()) == 0 || errno == ENOENT) && gone;
    }
  }
  return gone;
}

std::optional<uint64_t> CgroupOomKills(const std::string& path) {
  for (const std::string& folder : CgroupFolders(path)) {
    for (const char* file : {"/memory.events", "/memory.oom_control"}) {
      if (const auto count = CounterIn(folder + file, "oom_kill"); count) {
        return count;
      }
    }
  }
  return std::nullopt;
}

std::optional<CgroupUse> ReadCgroupUse(const std::string& path) {
  std::optional<uint64_t> memory;
  std::optional<uint64_t> cpu;
  for (const std::string& folder : CgroupFolders(path)) {
    memory = memory ? memory : MemoryIn(folder);
    cpu = cpu ? cpu : CpuTimeIn(folder);
  }
  if (!memory || !cpu) {
    return std::nullopt;
  }
  return CgroupUse{.memory_bytes = *memory, .cpu_ns = *cpu};
}

}  // namespace tide::agent
