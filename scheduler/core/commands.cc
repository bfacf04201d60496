#include "scheduler/core/commands.h"

#include <algorithm>

#include "scheduler/core/proof.h"

namespace tide {
namespace {

Command For(const Job& job, uint32_t task, CommandKind kind) {
  const Attempt& attempt = job.attempts.back();
  Command command;
  command.node = attempt.tasks[task].node;
  command.kind = kind;
  command.job = job.id;
  command.epoch = attempt.epoch;
  command.task = task;
  return command;
}

std::optional<Command> ForTask(const Policy& policy, const Job& job, uint32_t index) {
  const Attempt& attempt = job.attempts.back();
  const Task& task = attempt.tasks[index];
  if (task.state == TaskState::kExited) {
    return std::nullopt;
  }
  if (const auto* saving = std::get_if<Saving>(&job.phase)) {
    Command command = For(job, index, CommandKind::kSuspendTask);
    command.deadline = saving->deadline;
    return command;
  }
  if (const auto* stopping = std::get_if<Stopping>(&job.phase)) {
    Command command = For(job, index, CommandKind::kStopTask);
    command.kill = stopping->kill;
    command.grace = stopping->cause == StopCause::kFault ? policy.fault_grace : policy.stop_grace;
    return command;
  }
  if (task.state == TaskState::kAssigned) {
    Command command = For(job, index, CommandKind::kStartTask);
    command.start_timeout = StartTimeoutOf(job.spec, policy);
    return command;
  }
  if (attempt.withdrawn) {
    return For(job, index, CommandKind::kWithdrawSuspend);
  }
  return std::nullopt;
}

// Asks what the ranks of a task are doing that stands still.
std::optional<Command> ForStalled(const Job& job, uint32_t index) {
  const Attempt& attempt = job.attempts.back();
  if (StateOf(job) != JobState::kRunning || !attempt.stalled_at.is_set() ||
      attempt.tasks[index].state == TaskState::kExited) {
    return std::nullopt;
  }
  Command command = For(job, index, CommandKind::kDumpStacks);
  command.deadline = attempt.stalled_at;
  return command;
}

void AppendForTask(const Policy& policy,
                   const Job& job,
                   uint32_t index,
                   std::vector<Command>& out) {
  for (const auto& command : {ForTask(policy, job, index), ForStalled(job, index)}) {
    if (command) {
      out.push_back(*command);
    }
  }
}

// While its victims are still there.
void AppendFetch(const Job& claimant, NodeId node, std::vector<Command>& out) {
  if (claimant.spec->image == "host") {
    return;
  }
  Command command;
  command.node = node;
  command.kind = CommandKind::kFetchImage;
  command.job = claimant.id;
  out.push_back(command);
}

// Has forgotten what ended while its job waited for evidence: ReplyTo put it off.
void AppendForget(const Job& job, std::vector<Command>& out) {
  if (job.attempts.empty() || job.attempts.back().released_at != job.state_since) {
    return;
  }
  const Attempt& attempt = job.attempts.back();
  const bool waited = std::ranges::all_of(
      attempt.tasks, [&](const Task& task) { return task.exited_at < attempt.released_at; });
  for (uint32_t task = 0; waited && task < attempt.tasks.size(); ++task) {
    out.push_back(For(job, task, CommandKind::kForgetTask));
  }
}

}  // namespace

void AppendForJob(const ClusterState& /*state*/,
                  const Policy& policy,
                  const Job& job,
                  std::vector<Command>& out) {
  if (const auto* queued = std::get_if<Queued>(&job.phase); queued != nullptr && queued->claim) {
    for (const NodeId node : queued->claim->nodes) {
      AppendFetch(job, node, out);
    }
  }
  if (AllocationOf(job) == nullptr) {
    AppendForget(job, out);
    return;
  }
  for (uint32_t task = 0; task < job.attempts.back().tasks.size(); ++task) {
    AppendForTask(policy, job, task, out);
  }
}

void AppendForNode(const ClusterState& state,
                   const Policy& policy,
                   const Node& node,
                   std::vector<Command>& out) {
  if (node.state == NodeState::kValidating) {
    Command command;
    command.node = node.id;
    command.kind = CommandKind::kValidate;
    command.request_id = node.validation_id;
    command.validators = ProofWanted(state, node.id);
    command.thorough = FailedItsTest(state, node.id);
    command.repairs = RepairsOrdered(state, node.id, node.state_since);
    out.push_back(command);
  }
  if (node.idle_test.running) {
    Command command;
    command.node = node.id;
    command.kind = CommandKind::kValidate;
    command.request_id = node.idle_test.id;
    command.yields = true;
    command.as_peer = node.idle_test.as_peer;
    if (!command.as_peer) {
      command.thorough = true;
      command.passed_over = node.idle_test.done;
    }
    out.push_back(command);
  }
  for (const Leftover& leftover : node.leftovers) {
    Command command;
    command.node = node.id;
    command.kind = CommandKind::kStopTask;
    command.job = leftover.job;
    command.epoch = leftover.epoch;
    command.task = leftover.task;
    command.kill = true;
    out.push_back(command);
  }
  for (const Occupant& occupant : state.uses[node.id.value()].tasks) {
    AppendForTask(policy, state.jobs.at(occupant.job), occupant.task, out);
  }
  for (const JobId claimant : state.uses[node.id.value()].claimants) {
    AppendFetch(state.jobs.at(claimant), node.id, out);
  }
}

std::vector<Command> Outstanding(const ClusterState& state, const Policy& policy) {
  std::vector<Command> commands;
  for (const Node& node : state.nodes) {
    AppendForNode(state, policy, node, commands);
  }
  return commands;
}

bool IsBelieved(const ClusterState& state, const TaskReported& report) {
  const Job* job = state.FindJob(report.job);
  return job != nullptr && AllocationOf(*job) != nullptr &&
         job->attempts.back().epoch == report.epoch &&
         report.task < job->attempts.back().tasks.size() &&
         job->attempts.back().tasks[report.task].node == report.node &&
         job->attempts.back().tasks[report.task].state != TaskState::kExited;
}

std::optional<Command> ReplyTo(const ClusterState& state, const TaskReported& report) {
  Command command;
  command.node = report.node;
  command.job = report.job;
  command.epoch = report.epoch;
  command.task = report.task;
  if (IsBelieved(state, report)) {
    return std::nullopt;
  }
  const Job* job = state.FindJob(report.job);
  if (job != nullptr && AwaitsEvidence(*job) && job->attempts.back().epoch == report.epoch &&
      report.state == TaskState::kExited) {
    return std::nullopt;  // until it is known whether the job is over
  }
  if (report.state == TaskState::kExited) {
    command.kind = CommandKind::kForgetTask;
  } else {
    command.kind = CommandKind::kStopTask;
    command.kill = true;
  }
  return command;
}

}  // namespace tide
