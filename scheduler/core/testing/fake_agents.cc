#include "scheduler/core/testing/fake_agents.h"

#include <algorithm>

namespace tide::testing {
namespace {

constexpr int64_t kStepsPerSave = 10;

}  // namespace

void FakeAgents::Say(const FakeTask& task) {
  outbox_.emplace_back(task.report.node, task.report);
}

void FakeAgents::End(FakeTask& task, ExitReason reason, int32_t code, Instant now) {
  task.report.state = TaskState::kExited;
  task.report.exit.reason = reason;
  task.report.exit.code = code;
  task.report.at = now;
  Instant& witnessed = witnessed_[{task.report.job, task.report.epoch}];
  witnessed = std::max(witnessed, now);
  Say(task);
}

void FakeAgents::ObeyStop(const Key& key, const Command& command, Instant now) {
  const auto it = tasks_.find(key);
  if (it == tasks_.end()) {
    FakeTask never_ran;
    never_ran.report.node = command.node;
    never_ran.report.job = command.job;
    never_ran.report.epoch = command.epoch;
    never_ran.report.task = command.task;
    End(tasks_.emplace(key, never_ran).first->second, ExitReason::kStopped, 0, now);
  } else if (it->second.report.state == TaskState::kExited) {
    Say(it->second);
  } else if (stops || command.kill) {
    End(it->second, ExitReason::kStopped, 143, now);
  } else {
    it->second.stopping = true;
  }
}

void FakeAgents::Obey(const Command& command, Instant now) {
  if (cut.contains(command.node)) {
    return;
  }
  const Key key(command.node, command.job, command.epoch, command.task);
  const auto it = tasks_.find(key);
  switch (command.kind) {
    case CommandKind::kStartTask:
      BreakOff(command.node);
      if (it == tasks_.end()) {
        FakeTask task;
        task.report.node = command.node;
        task.report.job = command.job;
        task.report.epoch = command.epoch;
        task.report.task = command.task;
        task.report.state = TaskState::kPreparing;
        task.report.at = now;
        FakeTask& added = tasks_.emplace(key, task).first->second;
        if (unfit.contains(command.node)) {
          added.report.exit.message = "no space left on device";
          End(added, ExitReason::kNodeFault, 0, now);
        } else if (strangers.contains(command.node)) {
          added.report.exit.message = "user ann has no account";
          End(added, ExitReason::kNoAccount, 0, now);
        }
      } else {
        Say(it->second);
      }
      break;
    case CommandKind::kSuspendTask:
      if (it != tasks_.end()) {
        it->second.saving = true;
      }
      break;
    case CommandKind::kWithdrawSuspend:
      if (it != tasks_.end() && !GangIsParked(it->second)) {
        it->second.saving = false;
        it->second.report.parked_at = Instant();
        it->second.report.stop_step = -1;
      }
      break;
    case CommandKind::kStopTask:
      ObeyStop(key, command, now);
      break;
    case CommandKind::kForgetTask:
      tasks_.erase(key);
      break;
    case CommandKind::kValidate:
      if (validations_[command.node].request != command.request_id && !command.repairs.empty()) {
        repairs.emplace_back(command.node, command.repairs);
      }
      validations_[command.node] = {command.request_id,
                                    command.validators,
                                    command.yields,
                                    command.as_peer,
                                    false,
                                    command.repairs};
      break;
    case CommandKind::kDumpStacks:
    case CommandKind::kFetchImage:
      break;
  }
}

bool FakeAgents::GangIsParked(const FakeTask& task) const {
  return std::all_of(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    const TaskReported& other = entry.second.report;
    return other.job != task.report.job || other.epoch != task.report.epoch ||
           other.state == TaskState::kExited || other.parked_at.is_set();
  });
}

bool FakeAgents::ProgressOf(FakeTask& task, Instant now) {
  TaskReported& report = task.report;
  if (report.state == TaskState::kExited) {
    return false;
  }
  if (report.state == TaskState::kPreparing) {
    if (starts) {
      report.state = TaskState::kRunning;
      report.at = now;
      if (prepares && report.task == 0 && steps_[report.job] == 0) {
        report.saved_step = 0;
        report.saved_at = now;
      }
      Say(task);
    }
    return starts;
  }
  if (task.stopping && stops) {
    End(task, ExitReason::kStopped, 143, now);
    return true;
  }
  if (!task.saving || !saves) {
    return false;
  }
  if (!report.parked_at.is_set()) {
    report.parked_at = now;
    report.stop_step = steps_[report.job] + kStepsPerSave;
    Say(task);
    return true;
  }
  if (!task.saved && GangIsParked(task)) {
    task.saved = true;
    report.saved_step = report.stop_step;
    report.saved_at = now;
    Say(task);
    return true;
  }
  const bool all_saved = std::all_of(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    const FakeTask& other = entry.second;
    return other.report.job != report.job || other.report.epoch != report.epoch || other.saved ||
           other.report.state == TaskState::kExited;
  });
  if (task.saved && all_saved) {
    steps_[report.job] = std::max(steps_[report.job], report.saved_step);
    End(task, ExitReason::kSuspended, 85, now);
    return true;
  }
  return false;
}

bool FakeAgents::Progress(Instant now) {
  bool any = false;
  for (auto& [key, task] : tasks_) {
    any = ProgressOf(task, now) || any;
  }
  if (validates) {
    for (const auto& [node, validation] : validations_) {
      if (!cut.contains(node)) {
        outbox_.emplace_back(
            node, ValidationReported{node, validation.request, Verdicts(validation, now)});
        any = true;
      }
    }
    std::erase_if(validations_, [&](const auto& entry) { return !cut.contains(entry.first); });
  }
  return any;
}

void FakeAgents::BreakOff(NodeId node) {
  const auto found = validations_.find(node);
  if (found == validations_.end() || !found->second.yields) {
    return;
  }
  const std::string request = found->second.request;
  validations_.erase(found);
  for (auto& [other, each] : validations_) {
    each.broken = each.broken || each.request == request;
  }
}

std::string FakeAgents::SumVerdict(const Validation& validation) const {
  size_t members = 0;
  bool spoilt = false;
  for (const auto& [node, each] : validations_) {
    if (each.request == validation.request) {
      ++members;
      spoilt = spoilt || each.broken || spoilers.contains(node) || cut.contains(node);
    }
  }
  return members < 2 || spoilt ? "skipped" : verdict;
}

std::vector<Verdict> FakeAgents::Verdicts(const Validation& validation, Instant now) const {
  if (validation.as_peer) {
    return {{"fabric", SumVerdict(validation), 1, "", "x", 1, now}};
  }
  std::vector<Verdict> verdicts{{"gpu", verdict, 1, "", "x", 1, now}};
  for (const std::string& validator : validation.validators) {
    const bool missing = missing_validators.contains(validator);
    const std::string found = missing                 ? "skipped"
                              : validator == "fabric" ? SumVerdict(validation)
                                                      : verdict;
    verdicts.push_back({validator, found, 1, "", missing ? "not here" : "x", 1, now});
  }
  for (const auto& [step, devices] : validation.repairs) {
    if (!repair_verdict.empty()) {
      verdicts.push_back({"repair-" + step, repair_verdict, 1, "", "x", 1, now});
    }
  }
  return verdicts;
}

void FakeAgents::Exit(JobId job, uint32_t task, ExitReason reason, int32_t code, Instant now) {
  for (auto& [key, each] : tasks_) {
    if (each.report.job == job && each.report.task == task &&
        each.report.state != TaskState::kExited) {
      End(each, reason, code, now);
    }
  }
}

void FakeAgents::Reboot(NodeId node) {
  std::erase_if(tasks_, [&](const auto& entry) { return entry.second.report.node == node; });
  std::erase_if(outbox_, [&](const auto& entry) { return entry.first == node; });
  validations_.erase(node);
}

void FakeAgents::Isolate(Instant now, Duration timeout) {
  for (auto& [key, task] : tasks_) {
    const auto since = cut.find(task.report.node);
    if (since == cut.end() || task.report.state == TaskState::kExited) {
      continue;
    }
    Instant end = since->second + timeout;
    const std::pair attempt(task.report.job, task.report.epoch);
    if (const auto last = witnessed_.find(attempt);
        witness_timeout != Duration() && LiveTasks(attempt) == 1 && last != witnessed_.end()) {
      end = std::min(end, std::max(since->second, last->second) + witness_timeout);
    }
    if (end <= now) {
      End(task, ExitReason::kCutOff, 0, now);
    }
  }
}

size_t FakeAgents::LiveTasks(const std::pair<JobId, Epoch>& attempt) const {
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    const TaskReported& report = entry.second.report;
    return report.job == attempt.first && report.epoch == attempt.second &&
           report.state != TaskState::kExited;
  }));
}

std::vector<EventBody> FakeAgents::TakeReports() {
  std::vector<EventBody> reports;
  std::vector<std::pair<NodeId, EventBody>> kept;
  for (auto& entry : outbox_) {
    if (cut.contains(entry.first)) {
      kept.push_back(std::move(entry));
    } else {
      reports.push_back(std::move(entry.second));
    }
  }
  outbox_ = std::move(kept);
  return reports;
}

std::vector<TaskReported> FakeAgents::Held(NodeId node) const {
  std::vector<TaskReported> held;
  for (const auto& [key, task] : tasks_) {
    if (task.report.node == node) {
      held.push_back(task.report);
    }
  }
  return held;
}

std::optional<std::string> FakeAgents::CheckNoRankTwice() const {
  std::map<NodeId, JobId> busy;
  std::map<JobId, Epoch> running;
  for (const auto& [key, task] : tasks_) {
    if (task.report.state == TaskState::kExited) {
      continue;
    }
    const std::string name = FormatJobName(task.report.job.value());
    const auto [other, alone] = busy.emplace(task.report.node, task.report.job);
    if (!alone && !(parts.contains(other->second) && parts.contains(task.report.job))) {
      return "two live tasks on node " + std::to_string(task.report.node.value());
    }
    const auto [it, first] = running.emplace(task.report.job, task.report.epoch);
    if (!first && it->second != task.report.epoch) {
      return "two attempts of " + name + " run at once";
    }
  }
  return std::nullopt;
}

size_t FakeAgents::LiveTasks(JobId job) const {
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    return entry.second.report.job == job && entry.second.report.state != TaskState::kExited;
  }));
}

}  // namespace tide::testing
