#include "sim/replay/agents.h"

#include "common/base/check.h"
#include "sim/replay/replay.h"
#include "sim/replay/virtual_time.h"

namespace tide::sim {
namespace {

constexpr int32_t kFallenOffTheBus = 79;  // Xid
constexpr int32_t kSuspendedExit = 85;    // docs/rank-protocol.md
constexpr int32_t kStoppedExit = 143;
constexpr int64_t kFailureMs = 5'000;  // until a validation finds a node broken

}  // namespace

SimAgents::SimAgents(const ClusterShape& shape, const ReplayOptions& options, Agenda& agenda)
    : shape_(shape), options_(options), agenda_(agenda), nodes_(shape.nodes.size()) {}

TaskReported SimAgents::ReportOf(size_t job, uint32_t task, int64_t now_ms) const {
  TaskReported report;
  report.node = gangs[job].tasks()[task];
  report.job = JobId(job + 1);
  report.epoch = gangs[job].epoch();
  report.task = task;
  report.state = TaskState::kRunning;
  report.at = At(now_ms);
  return report;
}

void SimAgents::Leave(size_t job, uint32_t task, int64_t now_ms) {
  Gang& gang = gangs[job];
  const NodeId node = gang.tasks()[task];
  gang.Release(now_ms, task);
  nodes_[node.value()].tasks.erase({job, task});
  const bool last = gang.phase() == GangPhase::kWaiting || gang.phase() == GangPhase::kDone;
  releases_.push_back({job, node, last});
}

void SimAgents::LeaveAll(NodeId node, int64_t now_ms) {
  const auto tasks = nodes_[node.value()].tasks;
  for (const auto& [job, task] : tasks) {
    Leave(job, task, now_ms);
  }
}

void SimAgents::Exit(
    size_t job, uint32_t task, TaskReported report, ExitReason reason, Reports& out) {
  report.state = TaskState::kExited;
  report.exit.reason = reason;
  report.exit.code = reason == ExitReason::kSuspended ? kSuspendedExit
                     : reason == ExitReason::kStopped ? kStoppedExit
                     : reason == ExitReason::kFailed  ? 1
                                                      : 0;
  Leave(job, task, ToMs(report.at));
  out.emplace_back(std::move(report));
}

void SimAgents::ExitAll(size_t job, int64_t now_ms, ExitReason reason, Reports& out) {
  for (uint32_t task = 0; task < gangs[job].tasks().size(); ++task) {
    if (!gangs[job].IsLive(task)) {
      continue;
    }
    TaskReported report = ReportOf(job, task, now_ms);
    if (reason == ExitReason::kSuspended) {
      report.stop_step = report.saved_step = gangs[job].progress_ms();
      report.parked_at = report.saved_at = At(now_ms);
    }
    Exit(job, task, std::move(report), reason, out);
  }
}

void SimAgents::Place(size_t job, Epoch epoch, const std::vector<NodeId>& nodes, int64_t now_ms) {
  gangs[job].Place(now_ms, epoch, nodes);
  for (uint32_t task = 0; task < nodes.size(); ++task) {
    SimNode& node = nodes_[nodes[task].value()];
    node.tasks.insert({job, task});
    if (node.broken) {
      // Its fault has not been seen yet, or did not take it out of service: the ranks fail again.
      gangs[job].Break(now_ms);
      See(nodes[task].value(), now_ms);
    }
  }
}

void SimAgents::See(uint32_t node, int64_t now_ms) {
  if (!nodes_[node].dead) {
    agenda_.Add(now_ms + options_.fault_seen_ms, Happening::kSeen, node);
  }
}

void SimAgents::Obey(const Command& command, int64_t now_ms, Reports& out) {
  if (command.kind == CommandKind::kValidate && command.as_peer) {
    return;  // the node that is tested answers, and lets it go
  }
  if (command.kind == CommandKind::kValidate) {
    nodes_[command.node.value()].validation = command.request_id;
    nodes_[command.node.value()].validators = command.validators;
    // What is broken fails at once, and not at the end.
    SimNode& node = nodes_[command.node.value()];
    node.validation_fails = node.broken;
    const int64_t takes = node.broken ? kFailureMs : options_.validation_ms;
    agenda_.Add(now_ms + takes, Happening::kValidated, command.node.value());
    return;
  }
  if (command.kind == CommandKind::kFetchImage) {
    return;
  }
  const size_t job = command.job.value() - 1;
  Gang& gang = gangs[job];
  if (gang.epoch() != command.epoch || !gang.IsLive(command.task) ||
      nodes_[command.node.value()].dead) {
    return;
  }
  switch (command.kind) {
    case CommandKind::kStartTask:
      // All tasks of a gang are told in one step; the first order starts it.
      if (gang.phase() == GangPhase::kStarting && command.task == 0) {
        agenda_.Add(now_ms + gang.StartCost(),
                    Happening::kStarted,
                    static_cast<uint32_t>(job),
                    gang.epoch().value());
      }
      break;
    case CommandKind::kSuspendTask:
      if (gang.phase() == GangPhase::kRunning && gang.saves()) {
        Suspend(job, now_ms, out);
      }
      break;
    case CommandKind::kStopTask:
      Stop(job, command.task, now_ms, out);
      break;
    case CommandKind::kWithdrawSuspend:  // its ranks are parked: from there on it leaves
    case CommandKind::kForgetTask:
    case CommandKind::kValidate:
    case CommandKind::kDumpStacks:
    case CommandKind::kFetchImage:
      break;
  }
}

void SimAgents::Suspend(size_t job, int64_t now_ms, Reports& out) {
  Gang& gang = gangs[job];
  gang.BeginSave(now_ms);
  for (uint32_t task = 0; task < gang.tasks().size(); ++task) {
    TaskReported report = ReportOf(job, task, now_ms);
    report.parked_at = At(now_ms);
    report.stop_step = gang.progress_ms();
    out.emplace_back(std::move(report));
  }
  agenda_.Add(now_ms + options_.costs.save_ms,
              Happening::kSaved,
              static_cast<uint32_t>(job),
              gang.epoch().value());
}

void SimAgents::Stop(size_t job, uint32_t task, int64_t now_ms, Reports& out) {
  Gang& gang = gangs[job];
  if (gang.phase() != GangPhase::kEnding) {
    gang.Stop(now_ms);
  }
  Exit(job, task, ReportOf(job, task, now_ms), ExitReason::kStopped, out);
}

void SimAgents::HandleJob(const AgendaItem& item, int64_t now_ms, Reports& out) {
  const size_t job = item.subject;
  Gang& gang = gangs[job];
  if (gang.epoch().value() != item.mark) {
    return;
  }
  if (item.what == Happening::kStarted && gang.phase() == GangPhase::kStarting) {
    gang.BeginRun(now_ms);
    for (uint32_t task = 0; task < gang.tasks().size(); ++task) {
      out.emplace_back(ReportOf(job, task, now_ms));
    }
    agenda_.Add(gang.EndsAt(), Happening::kEnded, item.subject, item.mark);
    if (gang.saves()) {
      const int64_t every_ms = options_.costs.checkpoint_every_ms;
      agenda_.Add(now_ms + every_ms, Happening::kFirstSave, item.subject, item.mark);
    }
  } else if (item.what == Happening::kEnded && gang.phase() == GangPhase::kRunning) {
    gang.EndRun(now_ms);
    ExitAll(job, now_ms, ExitReason::kSucceeded, out);
  } else if (item.what == Happening::kFirstSave && gang.phase() == GangPhase::kRunning) {
    // The scheduler learns that it saves. How far it is matters only when it leaves.
    TaskReported report = ReportOf(job, 0, now_ms);
    report.saved_step = 0;
    report.saved_at = At(now_ms);
    out.emplace_back(std::move(report));
  } else if (item.what == Happening::kSaved && gang.phase() == GangPhase::kSaving) {
    gang.EndSave(now_ms);
    ExitAll(job, now_ms, ExitReason::kSuspended, out);
  }
}

void SimAgents::Handle(const AgendaItem& item, int64_t now_ms, Reports& out) {
  const NodeId node(item.subject);
  switch (item.what) {
    case Happening::kStarted:
    case Happening::kEnded:
    case Happening::kSaved:
    case Happening::kFirstSave:
      HandleJob(item, now_ms, out);
      break;
    case Happening::kSeen:
      ReportFault(node, now_ms, out);
      break;
    case Happening::kSilent:
      if (nodes_[node.value()].dead) {
        out.emplace_back(NodeSilent{node});
      }
      break;
    case Happening::kLost:
      if (nodes_[node.value()].dead) {
        out.emplace_back(NodeLost{node});
        LeaveAll(node, now_ms);  // out of service from here on
      }
      break;
    case Happening::kRepaired:
      Repair(node, now_ms, out);
      break;
    case Happening::kValidated: {
      SimNode& at = nodes_[node.value()];
      if (!at.dead && !at.validation.empty()) {
        const std::string verdict = at.broken || at.validation_fails ? "fail" : "pass";
        ValidationReported report{node, at.validation, {}};
        report.verdicts.push_back({"gpu", verdict, 0, "", "", 0, At(now_ms)});
        for (const std::string& validator : at.validators) {
          report.verdicts.push_back({validator, verdict, 0, "", "", 0, At(now_ms)});
        }
        out.emplace_back(std::move(report));
        at.validation.clear();
      }
      break;
    }
    case Happening::kSubmit:
    case Happening::kFault:
    case Happening::kReadmit:
      TIDE_CHECK(false, "the replay handles these");
  }
}

void SimAgents::Break(const NodeFault& fault, int64_t now_ms) {
  SimNode& node = nodes_[fault.node];
  node.until_ms = std::max({node.until_ms, fault.until_ms, now_ms});
  agenda_.Add(node.until_ms, Happening::kRepaired, fault.node);
  if (node.broken) {
    return;
  }
  node.broken = true;
  for (const auto& [job, task] : node.tasks) {
    gangs[job].Break(now_ms);
  }
  node.what = fault.what;
  node.dead = fault.what == FaultClass::kNode;
  See(fault.node, now_ms);
  if (node.dead) {
    agenda_.Add(now_ms + options_.node_silent_ms, Happening::kSilent, fault.node);
    agenda_.Add(now_ms + options_.node_lost_ms, Happening::kLost, fault.node);
  }
}

void SimAgents::ReportFault(NodeId node, int64_t now_ms, Reports& out) {
  if (!nodes_[node.value()].broken || nodes_[node.value()].dead) {
    return;  // over before anybody saw it
  }
  const bool gpu = nodes_[node.value()].what == FaultClass::kGpu;
  out.emplace_back(FaultObserved{node,
                                 gpu ? FaultKind::kXid : FaultKind::kLinkDown,
                                 gpu ? kFallenOffTheBus : 0,
                                 gpu ? "gpu0" : "mlx5_0",
                                 "",
                                 At(now_ms),
                                 false,
                                 !gpu});
  // The ranks notice, too: their collectives fail.
  const auto tasks = nodes_[node.value()].tasks;
  for (const auto& [job, task] : tasks) {
    if (gangs[job].phase() == GangPhase::kBroken) {
      Exit(job, task, ReportOf(job, task, now_ms), ExitReason::kFailed, out);
    }
  }
}

void SimAgents::Repair(NodeId id, int64_t now_ms, Reports& out) {
  SimNode& node = nodes_[id.value()];
  if (!node.broken || node.until_ms > now_ms) {
    return;  // another fault keeps it out longer
  }
  node.broken = false;
  const bool rebooted = node.dead || node.what == FaultClass::kGpu;
  if (node.dead) {
    node.dead = false;
    LeaveAll(id, now_ms);  // it came back before it was given up
  }
  if (rebooted && node.tasks.empty()) {
    NodeIdentity identity = shape_.nodes[id.value()];
    identity.boot_id = "boot-" + std::to_string(now_ms);
    out.emplace_back(NodeJoined{id, std::move(identity), {}});
  }
  // The port is seen well again.
  if (node.what == FaultClass::kLink || node.what == FaultClass::kFlash) {
    out.emplace_back(
        FaultObserved{id, FaultKind::kLinkDown, 0, "mlx5_0", "", At(now_ms), true, true});
  }
  // The operator looks once the scheduler has heard of it.
  agenda_.Add(now_ms + 1, Happening::kReadmit, id.value());
}

}  // namespace tide::sim
