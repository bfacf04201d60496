#include "agent/server/log_retention.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/runtime/task_folder.h"

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

// Counts what lies below `folder`; the files are the agent's own, and few.
void Measure(const std::string& folder, OldLogs& logs) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    struct stat info{};
    if (::lstat(it->path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      logs.bytes += static_cast<uint64_t>(info.st_blocks) * 512;
      logs.at = std::max(
          logs.at,
          Instant::FromUnixNanos(info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec));
    }
  }
}

}  // namespace

std::vector<OldLogs> ListOldLogs(const std::string& tasks_folder) {
  std::vector<OldLogs> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(tasks_folder, error);
       !error && it != fs::directory_iterator();
       it.increment(error)) {
    OldLogs logs{.key = it->path().filename().string(), .bytes = 0, .at = {}};
    std::error_code unknown;
    if (logs.key.starts_with('.') || fs::exists(it->path() / kTaskFile, unknown) || unknown) {
      continue;
    }
    Measure(it->path().string(), logs);
    if (logs.at.is_set()) {  // else it is just being made
      found.push_back(std::move(logs));
    }
  }
  return found;
}

std::vector<std::string> ChooseExpired(std::vector<OldLogs> logs,
                                       const LogLimits& limits,
                                       Instant now) {
  std::ranges::sort(logs, [](const OldLogs& a, const OldLogs& b) {
    return a.at != b.at ? a.at < b.at : a.key < b.key;
  });
  uint64_t total = 0;
  for (const OldLogs& each : logs) {
    total += each.bytes;
  }
  std::vector<std::string> expired;
  for (const OldLogs& each : logs) {
    const bool too_old = limits.age > Duration() && now - each.at > limits.age;
    const bool too_much = limits.total_bytes != 0 && total > limits.total_bytes;
    if (!too_old && !too_much) {
      break;  // the rest is younger
    }
    total -= each.bytes;
    expired.push_back(each.key);
  }
  return expired;
}

LogRetention::LogRetention(std::string tasks_folder,
                           LogLimits limits,
                           std::function<void(std::vector<std::string>)> discard)
    : folder_(std::move(tasks_folder)), limits_(limits), discard_(std::move(discard)) {
  if (limits_.total_bytes != 0 || limits_.age > Duration()) {
    thread_ = std::thread([this] { Run(); });
  }
}

LogRetention::~LogRetention() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void LogRetention::Run() {
  while (true) {
    std::vector<std::string> expired = ChooseExpired(ListOldLogs(folder_), limits_, SystemNow());
    if (!expired.empty()) {
      discard_(std::move(expired));
    }
    const int64_t next = MonotonicNanos() + Duration::Millis(kLookEveryMs).nanos();
    const MutexLock lock(mutex_);
    while (!ending_ && MonotonicNanos() < next) {
      changed_.WaitFor(mutex_, std::max<int64_t>(0, next - MonotonicNanos()));
    }
    if (ending_) {
      return;
    }
  }
}

}  // namespace tide::agent
