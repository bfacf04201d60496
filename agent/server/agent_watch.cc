// What the agent sees: its tasks' exits and pages, the kernel log, its own isolation.

#include <algorithm>

#include "agent/runtime/task_folder.h"
#include "agent/server/agent_loop.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

// A rank waiting at an armed step gives up after 10 s (docs/rank-protocol.md); its agent before.
constexpr int64_t kArmedSilenceNs = 9'000'000'000;

}  // namespace

void AgentLoop::TakeRuntimeEvents() {
  for (const TaskEvent& event : runtime_->TakeEvents()) {
    const auto it = tasks_.find(event.key);
    if (it != tasks_.end()) {
      UpdateStatus(it->second, event.status);
    }
  }
}

void AgentLoop::UpdateStatus(HeldTask& task, const TaskStatus& status) {
  if (task.exited) {
    return;
  }
  task.status = status;
  const auto gone = std::count_if(
      status.ranks.begin(), status.ranks.end(), [](const RankStatus& rank) { return rank.exited; });
  task.pages->SetRanksGone(static_cast<uint32_t>(gone));
  (void)ObservePages(task, SystemNow().unix_nanos());
  if (!status.finished && !status.lost) {
    return;
  }
  if (!status.released) {
    log::Warning("Task is over but not released", {{"Task", task.key}, {"Error", status.error}});
    return;  // CheckKills asks again
  }
  task.exited = true;
  task.outcome = JudgeExits(CollectExits(task));
  if (task.outcome.reason == ExitReason::kFailed) {
    task.outcome.message += LastWords(task, task.outcome.rank);
  }
  Journal(task);
  log::Info("Task exited", {{"Task", task.key}, {"Outcome", task.outcome.message}});
  const MutexLock lock(mutex_);
  over_.insert(task.key);
}

// The last line a failed rank wrote usually says why.
std::string AgentLoop::LastWords(const HeldTask& task, int32_t rank) const {
  constexpr size_t kLineMax = 200;
  const std::string path = config_.state_dir + "/tasks/" + task.key + "/logs/" +
                           LogName(static_cast<uint32_t>(rank)) + ".log";
  const auto text = ReadTail(path, 4096);
  if (!text) {
    return "";
  }
  std::string_view rest = *text;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == ' ')) {
    rest.remove_suffix(1);
  }
  const size_t line = rest.rfind('\n');
  rest.remove_prefix(line == std::string_view::npos ? 0 : line + 1);
  return rest.empty() ? "" : ": " + health::PrintableUtf8(rest, kLineMax);
}

void AgentLoop::ScanPages() {
  const int64_t now = SystemNow().unix_nanos();
  for (auto& [key, task] : tasks_) {
    if (task.exited || !task.pages) {
      continue;
    }
    task.pages->DisarmIfSilent(kArmedSilenceNs);
    if (ObservePages(task, now)) {
      Journal(task);
    }
  }
}

// Stops that did not work, and lost tasks whose processes did not die at once, are tried again.
void AgentLoop::CheckKills() {
  const int64_t now = SystemNow().unix_nanos();
  for (auto& [key, task] : tasks_) {
    if (task.exited) {
      continue;
    }
    const bool overdue = task.stop_ordered && now > task.kill_at + 1'000'000'000;
    const bool unreleased = task.status.lost || task.status.finished;
    if (overdue) {
      task.kill_at = now;
      (void)runtime_->Kill(key);
    }
    if (overdue || unreleased) {
      if (const auto status = runtime_->Query(key)) {
        UpdateStatus(task, *status);
      }
    }
  }
}

void AgentLoop::ReadFaults() {
  const auto found = faults_->ReadNew();
  if (!found) {
    log::Failure("Kernel log not readable", {{"Error", found.error().message}});
  } else if (*found) {
    log::Warning("Fault in the kernel log", {{"Text", faults_->pending().back().text()}});
  }
}

// Cut off for longer than the scheduler waits before it starts the tasks elsewhere: end them here
// first, so that no rank runs twice.
void AgentLoop::CheckIsolation() {
  if (welcomed_) {
    last_contact_ns_ = MonotonicNanos();
    return;
  }
  if (MonotonicNanos() - last_contact_ns_ < isolation_ms_ * 1'000'000) {
    return;
  }
  for (auto& [key, task] : tasks_) {
    if (!task.exited && !task.stop_ordered) {
      log::Warning("Cut off for too long, stopping task", {{"Task", key}});
      OrderStop(task, true, Duration());
    }
  }
}

}  // namespace tide::agent
