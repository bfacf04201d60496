#include "agent/runtime/task_state.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>

#include "agent/runtime/cgroup.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/task_folder.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

constexpr Duration kKillTimeout = Duration::Seconds(2);
constexpr int kLookMillis = 5;
constexpr Duration kLateSupervisor = Duration::Seconds(2);
constexpr int kEmptyLooks = 3;

std::set<int32_t> ProcessesOf(const std::string& key, const std::string& folder) {
  std::set<int32_t> found;
  const auto add = [&found](const std::vector<int32_t>& pids) {
    found.insert(pids.begin(), pids.end());
  };
  if (const auto supervisor = ReadSupervisor(folder); supervisor && IsAlive(*supervisor)) {
    found.insert(supervisor->pid);
    add(DescendantsOf(supervisor->pid));
  }
  add(CgroupProcesses(TaskCgroup(key, folder)));
  // Without a cgroup, what remains without its supervisor is known by its environment only.
  for (const int32_t pid : ProcessesWithTag(TaskTag(key, folder))) {
    found.insert(pid);
    add(DescendantsOf(pid));
  }
  return found;
}

std::string KeyOf(const std::string& folder) {
  return folder.substr(folder.rfind('/') + 1);
}

}  // namespace

std::optional<TaskStatus> ReadExit(const std::string& folder) {
  const Result<std::string> text = ReadFile(folder + "/" + kExitFile);
  if (!text) {
    return std::nullopt;
  }
  Result<TaskStatus> status = TaskStatusFromJson(*text);
  if (!status) {
    return std::nullopt;
  }
  status->finished = true;
  return *std::move(status);
}

void AwaitSupervisor(const std::string& folder) {
  struct stat order{};
  while (::stat((folder + "/" + kTaskFile).c_str(), &order) == 0 && !ReadSupervisor(folder)) {
    const int64_t written_ns = order.st_mtim.tv_sec * 1'000'000'000 + order.st_mtim.tv_nsec;
    const int64_t age_ns = SystemNow().unix_nanos() - written_ns;
    if (age_ns < 0 || age_ns > kLateSupervisor.nanos()) {
      return;
    }
    ::poll(nullptr, 0, kLookMillis);
  }
}

bool SupervisorLives(const std::string& folder) {
  if (const auto supervisor = ReadSupervisor(folder); supervisor) {
    return IsAlive(*supervisor);
  }
  static_cast<void>(WriteFileDurably(folder + "/" + kAbandonedFile, ""));
  const auto supervisor = ReadSupervisor(folder);
  return supervisor && IsAlive(*supervisor);
}

TaskStatus EndLostTask(const std::string& folder) {
  TaskStatus status;
  // The last it said, if it said anything.
  if (const auto text = ReadFile(folder + "/" + kStatusFile); text) {
    status = TaskStatusFromJson(*text).value_or(TaskStatus());
  } else if (const auto config = ReadTaskConfig(folder); config) {
    for (const RankConfig& rank : config->ranks) {
      status.ranks.push_back({.rank = rank.rank, .local_rank = rank.local_rank});
    }
  }
  status.lost = true;
  status.unstarted =
      !ReadSupervisor(folder) && ::access((folder + "/" + kSupervisorFile).c_str(), F_OK) != 0;
  status.released = KillTask(KeyOf(folder), folder);
  status.error =
      "the supervisor of task " + KeyOf(folder) +
      " died; its exits are unknown (the machine restarted, or the supervisor was killed)";
  return status;
}

bool KillTask(const std::string& key, const std::string& folder) {
  const std::string cgroup = TaskCgroup(key, folder);
  const int64_t deadline = MonotonicNanos() + kKillTimeout.nanos();
  // A process in the middle of its exec or its exit shows no environment. So those seen once are
  // followed until they are dead, and one look that finds nothing is not enough.
  std::map<int32_t, uint64_t> seen;
  int empty_looks = 0;
  while (true) {
    KillCgroup(cgroup);
    for (const int32_t pid : ProcessesOf(key, folder)) {
      if (const auto info = ReadProcess(pid); info && !info->dead()) {
        seen[pid] = info->start_ticks;
      }
    }
    std::erase_if(seen, [](const auto& entry) {
      const auto info = ReadProcess(entry.first);
      return !info || info->start_ticks != entry.second || info->dead();
    });
    for (const auto& [pid, start_ticks] : seen) {
      ::kill(pid, SIGKILL);
    }
    empty_looks = seen.empty() ? empty_looks + 1 : 0;
    if (empty_looks >= kEmptyLooks && RemoveCgroup(cgroup)) {
      return true;
    }
    if (MonotonicNanos() > deadline) {
      return false;
    }
    ::poll(nullptr, 0, kLookMillis);
  }
}

}  // namespace tide::agent
