// The scheduler's orders, carried out. Each is idempotent: saying it again changes nothing.

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/server/agent_loop.h"
#include "agent/server/deadline.h"
#include "agent/server/start_plan.h"
#include "agent/validators/suite.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

template <typename Order>
std::string KeyOf(const Order& order) {
  return TaskKey(order.job_id(), order.epoch(), order.task());
}

}  // namespace

void AgentLoop::Carry(const tide::v1::Command& command) {
  switch (command.body_case()) {
    case tide::v1::Command::kStart:
      StartTask(command.start());
      break;
    case tide::v1::Command::kSuspend:
      SuspendTask(command.suspend());
      break;
    case tide::v1::Command::kWithdraw:
      WithdrawSuspend(command.withdraw());
      break;
    case tide::v1::Command::kStop:
      StopTask(command.stop());
      break;
    case tide::v1::Command::kForget:
      ForgetTask(command.forget());
      break;
    case tide::v1::Command::kValidate:
      Validate(command.validate());
      break;
    case tide::v1::Command::BODY_NOT_SET:
      log::Warning("Unknown command ignored; upgrade this agent");
      break;
  }
}

void AgentLoop::StartTask(const tide::v1::StartTask& start) {
  const std::string key = KeyOf(start);
  const auto held = tasks_.find(key);
  if (held != tasks_.end() && start.submitted_at() != 0 && held->second.start.submitted_at() != 0 &&
      held->second.start.submitted_at() != start.submitted_at()) {
    MakeStray(key);
  }
  if (strays_.contains(key)) {
    start_refused_ = true;
    next_stray_ns_ = 0;
    scan_now_ = true;
    return;
  }
  if (stopping_ || tasks_.contains(key)) {
    return;
  }
  HeldTask task;
  task.key = key;
  task.start = start;
  if (const Status noted = WriteHeld(config_.state_dir, task); !noted) {
    FailStart(start, Fault::kNode, noted.error());
    return;
  }
  auto plan = PlanStart(config_, start);
  if (!plan) {
    const bool again = plan.error().code == ErrorCode::kUnavailable;
    FailStart(start, again ? Fault::kNode : Fault::kJob, plan.error());
    return;
  }
  auto pages = TaskPages::Open(
      plan->run_dir, start.spec().ranks_per_node(), config_.job_uid, config_.job_gid);
  if (!pages) {
    FailStart(start, Fault::kNode, pages.error());
    return;
  }
  task.pages = std::move(*pages);
  if (const Status listening = sockets_.Add(key, plan->run_dir); !listening) {
    FailStart(start, Fault::kNode, listening.error());
    return;
  }
  SetAlive(key, true);
  if (const Status started = runtime_->Start(*plan); !started) {
    const bool refused = started.error().code == ErrorCode::kInvalidArgument;
    FailStart(start, refused ? Fault::kJob : Fault::kNode, started.error());
    return;
  }
  book_.Put(key, task.pages);
  tasks_.emplace(key, std::move(task));
  log::Info("Task starting", {{"Task", key}, {"Job", "j-" + std::to_string(start.job_id())}});
}

// What the job asks for is its own fault; a port in use, a full disk or a supervisor that does not
// come up is the node's, and the job tries again elsewhere.
void AgentLoop::FailStart(const tide::v1::StartTask& start, Fault fault, const Error& error) {
  HeldTask task;
  task.key = KeyOf(start);
  task.start = start;
  task.exited = true;
  task.outcome = {fault == Fault::kNode ? ExitReason::kNodeFault : ExitReason::kStartFailed,
                  0,
                  0,
                  -1,
                  error.message};
  log::Warning("Task not started", {{"Task", task.key}, {"Error", error.message}});
  sockets_.Remove(task.key);
  SetAlive(task.key, false);
  Journal(task);
  tasks_.emplace(task.key, std::move(task));
}

void AgentLoop::SuspendTask(const tide::v1::SuspendTask& order) {
  const auto it = tasks_.find(KeyOf(order));
  if (it == tasks_.end() || it->second.exited || it->second.stop_ordered) {
    return;
  }
  HeldTask& task = it->second;
  const bool news = task.suspend_deadline != order.deadline();
  if (news) {
    task.suspend_deadline = order.deadline();
    task.suspend_until = LocalDeadline(order.deadline(), order.remaining_ms());
    if (task.pages->committed_step() < 0) {
      task.parked_at = 0;  // of a suspension that was withdrawn
    }
    Journal(task);
  }
  if (task.start.task() != 0) {
    return;
  }
  const auto lead = leads_.find(task.key);
  if (lead == leads_.end() || (news && !lead->second.run->Renew(task.suspend_until))) {
    LeadAgreement(task);
  }
}

void AgentLoop::LeadAgreement(const HeldTask& task) {
  log::Info("Agreeing on a stop step", {{"Task", task.key}});
  const uint64_t serial = next_lead_++;
  leads_[task.key] = {
      serial,
      std::make_unique<SuspendRun>(
          task.start,
          token_,
          task.suspend_until,
          [this, key = task.key, serial](Agreement::Phase phase, int64_t /*step*/) {
            Post([this, key, serial, phase] { OnAgreementOver(key, serial, phase); });
          })};
}

void AgentLoop::OnAgreementOver(const std::string& key, uint64_t serial, Agreement::Phase phase) {
  log::Info("Agreement over",
            {{"Task", key},
             {"Result",
              phase == Agreement::Phase::kCommitted   ? "committed"
              : phase == Agreement::Phase::kSignalled ? "signalled"
                                                      : "aborted"}});
  const auto lead = leads_.find(key);
  if (lead != leads_.end() && lead->second.serial == serial &&
      (!tasks_.contains(key) || phase == Agreement::Phase::kAborted)) {
    leads_.erase(lead);  // a later order begins anew
  }
}

void AgentLoop::WithdrawSuspend(const tide::v1::WithdrawSuspend& order) {
  const auto it = tasks_.find(KeyOf(order));
  if (it == tasks_.end() || it->second.exited || it->second.suspend_deadline == 0) {
    return;
  }
  HeldTask& task = it->second;
  if (task.pages->committed_step() >= 0) {
    return;  // its ranks are leaving already (docs/adr/0001)
  }
  task.suspend_deadline = 0;
  Journal(task);
  if (const auto lead = leads_.find(task.key); lead != leads_.end()) {
    lead->second.run->Withdraw();
  }
}

void AgentLoop::OrderStop(HeldTask& task, bool kill, Duration grace) {
  if (task.exited) {
    return;
  }
  if (!task.stop_sent || kill) {
    const int64_t kill_at = SystemNow().unix_nanos() + (kill ? 0 : grace.nanos());
    task.kill_at = task.stop_ordered ? std::min(task.kill_at, kill_at) : kill_at;
    task.stop_ordered = true;
    task.stop_sent = true;
    Journal(task);
    const Status stopped = kill ? runtime_->Kill(task.key) : runtime_->Stop(task.key, grace);
    if (!stopped) {
      log::Warning("Stop not delivered", {{"Task", task.key}, {"Error", stopped.error().message}});
    }
  }
}

void AgentLoop::StopTask(const tide::v1::StopTask& order) {
  const auto it = tasks_.find(KeyOf(order));
  if (it == tasks_.end()) {
    // Not here: say so, or the scheduler would wait for ever. A task that never ran was stopped.
    HeldTask never;
    never.key = KeyOf(order);
    never.start.set_job_id(order.job_id());
    never.start.set_epoch(order.epoch());
    never.start.set_task(order.task());
    never.exited = true;
    never.outcome = {ExitReason::kStopped, 0, 0, -1, "stopped before it had started"};
    tasks_.emplace(never.key, std::move(never));
    return;
  }
  OrderStop(it->second, order.kill(), Duration::Millis(static_cast<int64_t>(order.grace_ms())));
}

void AgentLoop::ForgetTask(const tide::v1::ForgetTask& order) {
  const std::string key = KeyOf(order);
  const auto it = tasks_.find(key);
  if (it == tasks_.end() || !it->second.exited) {
    return;
  }
  leads_.erase(key);
  book_.Remove(key);
  sockets_.Remove(key);
  if (const Status removed = runtime_->Remove(key, true);
      !removed && removed.error().code != ErrorCode::kNotFound) {
    log::Warning("Task not cleared away", {{"Task", key}, {"Error", removed.error().message}});
    return;
  }
  janitor_.Discard(key);
  ClearRunDir(config_, key);  // of a task that the runtime never had
  RemoveHeld(config_.state_dir, key);
  tasks_.erase(it);
}

void AgentLoop::Validate(const tide::v1::Validate& order) {
  if (validating_ == order.request_id()) {
    return;
  }
  if (validation_.request_id() == order.request_id()) {
    validation_unsent_ = true;
    return;
  }
  if (!validating_.empty()) {
    next_validation_ = order;  // one at a time: they would measure each other
    return;
  }
  if (validator_.joinable()) {
    validator_.join();  // its result is here, so it has ended
  }
  validating_ = order.request_id();
  log::Info("Validating", {{"Request", order.request_id()}, {"Suite", order.suite()}});
  validator_ = std::thread([this, order] {
    tide::v1::ValidationReport report;
    report.set_request_id(order.request_id());
    const auto suite =
        validators::SuiteFor(order.suite(), config_.validator_dir, config_.state_dir);
    if (!suite) {
      log::Failure("No such suite", {{"Error", suite.error().message}});
    }
    for (const validators::Verdict& verdict :
         suite ? validators::RunSuite(*suite) : std::vector<validators::Verdict>()) {
      tide::v1::Verdict* added = report.add_verdicts();
      added->set_validator(verdict.validator);
      added->set_verdict(std::string(validators::OutcomeName(verdict.outcome)));
      added->set_value(verdict.value);
      added->set_unit(verdict.unit);
      added->set_evidence(verdict.evidence);
      added->set_seconds(verdict.seconds);
      added->set_at(SystemNow().unix_nanos());
    }
    Post([this, report = std::move(report)] {
      validation_ = report;
      validation_unsent_ = true;
      validating_.clear();
      if (const auto next = std::exchange(next_validation_, std::nullopt)) {
        Validate(*next);
      }
    });
  });
}

}  // namespace tide::agent
