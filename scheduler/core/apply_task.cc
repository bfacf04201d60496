// Reports about tasks, and what they mean for the job as a whole.

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "scheduler/core/apply_internal.h"
#include "scheduler/core/black_hole.h"
#include "scheduler/core/fsm/task_fsm.h"

namespace tide::apply {
namespace {

// Takes over what a report says about saving; true when it was news.
bool MergeSaving(Job& job, Instant at, Task& task, const TaskReported& report) {
  Attempt& attempt = job.attempts.back();
  bool news = false;
  if (report.stop_step >= 0 && report.stop_step != attempt.stop_step) {
    attempt.stop_step = report.stop_step;
    news = true;
  }
  if (report.parked_at.is_set() && !task.parked_at.is_set()) {
    task.parked_at = report.parked_at;
    news = true;
  }
  const bool all_parked =
      AllTasks(attempt, [](const Task& each) { return each.parked_at.is_set(); });
  if (all_parked && attempt.notice_at.is_set() && !attempt.parked_at.is_set()) {
    Instant parked;
    for (const Task& each : attempt.tasks) {
      parked = std::max(parked, each.parked_at);
    }
    CountParked(job, at, parked);
    attempt.parked_at = parked;
    news = true;
  }
  if (report.saved_step > task.saved_step) {
    task.saved_step = report.saved_step;
    news = true;
  }
  // A rank reports a step as saved once it knows the whole checkpoint to be committed, so one
  // task's word is enough. A later attempt may have gone back to an earlier one.
  const bool went_back = attempt.epoch > job.checkpoint.epoch && report.saved_step > 0 &&
                         report.saved_step < job.checkpoint.step;
  if (report.saved_step > job.checkpoint.step || went_back) {
    if (report.saved_step > 0 && AwaitsFirstStep(job)) {
      CountFirstStep(job, at, report.saved_at);  // it was over before it was seen
    }
    CountSaved(
        job, at, report.saved_at, attempt.stop_step >= 0 && report.saved_step >= attempt.stop_step);
    job.checkpoint = {report.saved_step, attempt.epoch, report.saved_at};
    news = true;
  }
  if (job.resume_step >= 0 && report.saved_step > job.resume_step) {
    job.resume_step = -1;
    news = true;
  }
  if (job.resume_before > 0 && report.saved_step >= job.resume_before &&
      attempt.loss_end == OnNan::kNote) {
    job.resume_before = 0;  // it has got past what sent it back
    news = true;
  }
  if (attempt.stop_step >= 0 && report.saved_step >= attempt.stop_step &&
      !attempt.saved_at.is_set() && report.saved_at.is_set()) {
    CountGpus(job, at);
    attempt.saved_at = report.saved_at;
    news = true;
  }
  return news;
}

// Its node has proven that it can start tasks.
bool Ran(const TaskReported& report) {
  switch (report.exit.reason) {
    case ExitReason::kNone:
      return report.state == TaskState::kRunning || report.state == TaskState::kStopping;
    case ExitReason::kSucceeded:
    case ExitReason::kSuspended:
    case ExitReason::kFailed:
    case ExitReason::kOom:
      return true;
    case ExitReason::kStopped:
    case ExitReason::kStartFailed:
    case ExitReason::kLost:
    case ExitReason::kCutOff:
    case ExitReason::kNodeFault:
    case ExitReason::kNoAccount:
      return false;
  }
  return false;
}

// True when the report ends one.
bool EndLeftover(ClusterState& state, const TaskReported& event) {
  if (event.state != TaskState::kExited || event.node.value() >= state.nodes.size()) {
    return false;
  }
  Node& node = state.nodes[event.node.value()];
  if (std::erase(node.leftovers, Leftover{event.job, event.epoch, event.task}) == 0) {
    return false;
  }
  MarkNode(state, node.id);
  return true;
}

// What hangs in the kernel was killed: it runs no more, whenever it ends. What its ranks did
// counts, if they had exited; else the job goes on elsewhere. The node is used again when it is
// gone.
void GiveUpStuck(ClusterState& state, Job& job, const TaskReported& event, Instant at) {
  Node& node = state.nodes[event.node.value()];
  node.leftovers.push_back({job.id, event.epoch, event.task});
  TaskExit exit = event.exit;
  if (exit.reason == ExitReason::kNone) {
    exit.reason = ExitReason::kLost;
    exit.message = event.stuck + " on " + node.identity.name;
  }
  ExitTask(state, job, event.task, at, exit);
  SuspectNode(state, node, at, DescribeStuck(event));
}

}  // namespace

void Avoid(Job& job, NodeId node) {
  std::erase(job.avoid, node);
  job.avoid.push_back(node);
  if (job.avoid.size() > kAvoidMax) {
    job.avoid.erase(job.avoid.begin());
  }
}

std::string DescribeStuck(const TaskReported& report) {
  return report.stuck + " (" + FormatJobName(report.job.value()) + ")";
}

void ExitTask(ClusterState& state, Job& job, uint32_t index, Instant at, TaskExit exit) {
  Task& task = job.attempts.back().tasks[index];
  TIDE_CHECK(task.state != TaskState::kExited, "a task exits once");
  ReleaseGpus(job, task, at);
  task.state = TaskState::kExited;
  task.exit = std::move(exit);
  task.exited_at = at;
  Vacate(state.uses, job, index, *AllocationOf(job));
  MarkJob(state, job.id);
  MarkNode(state, task.node);
  Node& node = state.nodes[task.node.value()];
  NoteEnd(node, job.attempts.back().running_at, at);
  SettleNode(state, node, at);
  if (task.exit.reason == ExitReason::kNodeFault) {
    Avoid(job, task.node);
    CountFailedStart(state, node, at, task.exit.message);
  } else if (task.exit.reason == ExitReason::kNoAccount) {
    Avoid(job, task.node);
  }
}

ApplyResult On(ClusterState& state, Instant at, const TaskReported& event) {
  if (EndLeftover(state, event)) {
    return Applied::kChanged;
  }
  const auto it = state.jobs.find(event.job);
  if (it == state.jobs.end() || it->second.attempts.empty()) {
    return Applied::kNoOp;  // Outstanding tells the agent to stop and forget it
  }
  Job& job = it->second;
  Attempt& attempt = job.attempts.back();
  if (event.epoch != attempt.epoch || AllocationOf(job) == nullptr) {
    return Applied::kNoOp;
  }
  if (event.task >= attempt.tasks.size() || attempt.tasks[event.task].node != event.node) {
    return Fail(ErrorCode::kInvalidArgument,
                FormatJobName(job.id.value()) + " has no task " + std::to_string(event.task) +
                    " on that node");
  }
  if (event.state == TaskState::kExited && event.exit.reason == ExitReason::kNone) {
    return Fail(ErrorCode::kInvalidArgument, "an exit needs a reason");
  }
  Task& task = attempt.tasks[event.task];
  if (!event.stuck.empty() && event.state != TaskState::kExited &&
      task.state != TaskState::kExited) {
    (void)MergeSaving(job, at, task, event);
    MarkJob(state, job.id);
    GiveUpStuck(state, job, event, at);
    SettleTask(state, job, event.task, at);
    return Applied::kChanged;
  }
  const bool forward = ClassifyTaskReport(task.state, event.state) == TaskStep::kForward;
  const bool saving_news = task.state != TaskState::kExited && MergeSaving(job, at, task, event);
  if (!forward && !saving_news) {
    return Applied::kNoOp;
  }
  MarkJob(state, job.id);
  if (forward) {
    if (event.state >= TaskState::kRunning && !task.started_at.is_set() &&
        event.exit.reason != ExitReason::kStartFailed &&
        event.exit.reason != ExitReason::kNodeFault &&
        event.exit.reason != ExitReason::kNoAccount) {
      task.started_at = event.at.is_set() ? event.at : at;
    }
    if (Node& node = state.nodes[task.node.value()]; node.failed_starts > 0 && Ran(event)) {
      node.failed_starts = 0;
      MarkNode(state, node.id);
    }
    if (event.state == TaskState::kExited) {
      ExitTask(state, job, event.task, at, event.exit);
    } else {
      task.state = event.state;
    }
    SettleTask(state, job, event.task, at);
  }
  return Applied::kChanged;
}

}  // namespace tide::apply
