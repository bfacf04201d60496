// What the agent sees: its tasks' exits and pages, the kernel log.

#include <algorithm>

#include "agent/runtime/task_folder.h"
#include "agent/server/agent_loop.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

// A rank waiting at an armed step gives up after 10 s (docs/rank-protocol.md); its agent before.
constexpr int64_t kArmedSilenceNs = 9'000'000'000;
constexpr int64_t kLookAgainNs = 1'000'000'000;

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
  SetAlive(task.key, false);
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
    EndIfCut(task);
  }
}

// Without its page a rank can neither be asked to leave nor believed: the job fails, by its own
// doing, and the agent goes on.
void AgentLoop::EndIfCut(HeldTask& task) {
  const auto cut = task.pages->FindCut();
  if (!cut || task.stop_ordered) {
    return;
  }
  const uint32_t first = task.start.task() * task.start.spec().ranks_per_node();
  task.cut_rank = static_cast<int32_t>(first + static_cast<uint32_t>(*cut));
  log::Warning("Rank cut its page short, ending its task",
               {{"Task", task.key}, {"Rank", task.cut_rank}});
  OrderStop(task, true, Duration());
}

// Stops that did not work, and lost tasks whose processes did not die at once, are tried again.
// Each look may take the runtime seconds, so there is one a second.
void AgentLoop::CheckKills() {
  const int64_t now = SystemNow().unix_nanos();
  for (auto& [key, task] : tasks_) {
    const bool overdue = task.stop_ordered && now > task.kill_at + kLookAgainNs;
    const bool unreleased = task.status.lost || task.status.finished;
    if (task.exited || !(overdue || unreleased) || MonotonicNanos() < task.next_look_ns) {
      continue;
    }
    if (overdue) {
      (void)runtime_->Kill(key);
    }
    if (const auto status = runtime_->Query(key)) {
      UpdateStatus(task, *status);
    }
    task.next_look_ns = MonotonicNanos() + kLookAgainNs;
  }
  if (!strays_.empty() && MonotonicNanos() >= next_stray_ns_) {
    EndStrays();
    next_stray_ns_ = MonotonicNanos() + kLookAgainNs;
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

}  // namespace tide::agent
