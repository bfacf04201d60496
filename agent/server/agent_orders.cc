// The scheduler's orders, handed to the core.

#include <unistd.h>

#include <optional>
#include <utility>

#include "agent/logs/stack_place.h"
#include "agent/runtime/processes.h"
#include "agent/runtime/stacks.h"
#include "agent/runtime/task_folder.h"
#include "agent/server/agent_loop.h"
#include "agent/server/deadline.h"
#include "agent/server/start_plan.h"
#include "agent/server/task_secrets.h"
#include "agent/validators/repair.h"
#include "agent/validators/suite.h"
#include "common/base/file.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

std::string FabricTokenFile(const AgentConfig& config) {
  return config.state_dir + "/fabric-token";
}

// Puts the node's part in an all-reduce of the group before all else, as the others wait for it.
void AddFabric(const AgentConfig& config,
               const tide::v1::FabricGroup& group,
               std::vector<validators::SuiteEntry>& suite) {
  std::vector<validators::SuiteEntry> fabric;
  validators::AddValidators({"fabric"}, config.validator_dir, fabric);
  validators::SuiteEntry& entry = fabric.front();
  std::string names;
  std::string addresses;
  std::string zones;
  for (const tide::v1::FabricGroup::Member& member : group.members()) {
    const char* const comma = names.empty() ? "" : ",";
    names += comma + member.node();
    addresses += comma + member.address();
    zones += comma + member.zone();
  }
  entry.args.insert(entry.args.end(),
                    {"--node",
                     std::to_string(group.self()),
                     "--names",
                     names,
                     "--addresses",
                     addresses,
                     "--zones",
                     zones,
                     "--token-file",
                     FabricTokenFile(config)});
  if (const Status written = WriteFileDurably(FabricTokenFile(config), group.token(), 0600);
      !written && entry.mistake.empty()) {
    entry.mistake = written.error().message;
  }
  std::erase_if(suite,
                [](const validators::SuiteEntry& each) { return each.validator == "fabric"; });
  suite.insert(suite.begin(), std::move(entry));
}

constexpr size_t kEvidenceMax = 4096;

void AddVerdicts(const std::vector<validators::Verdict>& verdicts,
                 tide::v1::ValidationReport& report) {
  for (const validators::Verdict& verdict : verdicts) {
    tide::v1::Verdict* added = report.add_verdicts();
    added->set_validator(verdict.validator);
    added->set_verdict(std::string(validators::OutcomeName(verdict.outcome)));
    added->set_value(verdict.value);
    added->set_unit(verdict.unit);
    added->set_evidence(health::PrintableUtf8(verdict.evidence, kEvidenceMax));
    added->set_seconds(verdict.seconds);
    added->set_at(SystemNow().unix_nanos());
  }
}

}  // namespace

void AgentLoop::Carry(const tide::v1::Command& command) {
  const auto committed_step = [this](const TaskId& id) {
    const HeldTask* task = FindHeld(id);
    return task == nullptr ? -1 : CommittedStep(*task);
  };
  switch (command.body_case()) {
    case tide::v1::Command::kStart:
      StartTask(command.start());
      break;
    case tide::v1::Command::kSuspend: {
      const TaskId id = IdOf(command.suspend());
      const tide::v1::SuspendTask& order = command.suspend();
      const int64_t until = LocalDeadline(order.deadline(), order.remaining_ms());
      core_.OnSuspend(id, {.deadline = order.deadline(), .until = until}, committed_step(id));
      break;
    }
    case tide::v1::Command::kWithdraw: {
      const TaskId id = IdOf(command.withdraw());
      core_.OnWithdraw(id, committed_step(id));
      break;
    }
    case tide::v1::Command::kStop: {
      const tide::v1::StopTask& stop = command.stop();
      const Duration grace = Duration::Millis(static_cast<int64_t>(stop.grace_ms()));
      core_.OnStop(IdOf(stop), stop.kill(), grace, Now());
      break;
    }
    case tide::v1::Command::kForget:
      if (HeldTask* const task = FindHeld(IdOf(command.forget())); task != nullptr) {
        task->job_over = command.forget().job_over();
      }
      core_.OnForget(IdOf(command.forget()), Now());
      break;
    case tide::v1::Command::kValidate:
      Validate(command.validate());
      break;
    case tide::v1::Command::kDumpStacks:
      DumpStacks(command.dump_stacks());
      break;
    case tide::v1::Command::kFetchImage:
      FetchEarly(command.fetch_image());
      break;
    case tide::v1::Command::BODY_NOT_SET:
      log::Warning("Unknown command ignored; upgrade this agent");
      break;
  }
  Act();
}

void AgentLoop::StartTask(const tide::v1::StartTask& start) {
  const TaskId id = IdOf(start);
  const bool in_the_way = strays_.contains(TaskKey(id));
  if (in_the_way) {
    EndStraysSoon();
  }
  if (core_.OnStart({.id = id,
                     .submitted_at = start.submitted_at(),
                     .terms = TermsOf(start.spec()),
                     .tasks = static_cast<uint32_t>(start.peers_size()),
                     .in_the_way = in_the_way,
                     .prepare = start.spec().image() != "host",
                     .start_timeout_ms = StartTimeoutMs(start)})) {
    if (validation_yields_) {
      StopValidation();
    }
    if (next_validation_ && next_validation_->yields()) {
      next_validation_.reset();
    }
    HeldTask& task = held_[id];
    task.start = start;
    task.key = TaskKey(id);
    task.secrets = TakeSecrets(config_, task.key, task.start);
  }
}

// Once for each time that its ranks stand still.
void AgentLoop::DumpStacks(const tide::v1::DumpStacks& order) {
  HeldTask* task = FindHeld(IdOf(order));
  if (task == nullptr || std::exchange(task->stacks_of, order.since()) == order.since()) {
    return;
  }
  constexpr size_t kPlacesMax = 64;  // of a task with more ranks their logs are not read
  constexpr uint32_t kLooks = 30;
  const std::vector<RankView> views = ReadPages(*task);
  StackRequest request;
  size_t asked = 0;
  task->stacks.assign(views.size() <= kPlacesMax ? views.size() : 0, {});
  for (const RankStatus& rank : task->status.ranks) {
    RankStack stack;
    if (rank.local_rank < task->stacks.size()) {
      stack.ticked_ns = views[rank.local_rank].ticked_ns;
      stack.log_from = LogLength(LogFolder(*task), rank.rank);
    }
    if (rank.pid <= 0 || rank.exited) {
      continue;
    }
    stack.pids = request.Ask(rank.pid);
    asked += stack.pids.size();
    stack.asked = !stack.pids.empty();
    if (!stack.asked) {
      stack.pids = {rank.pid};
    }
    if (rank.local_rank < task->stacks.size()) {
      stack.looks = kLooks;
      task->stacks[rank.local_rank] = stack;
    }
  }
  log::Info("Ranks stand still", {{"Task", task->key}, {"Stacks", std::to_string(asked)}});
}

void AgentLoop::FindPlaces(HeldTask& task) const {
  ConnectionLook connections;
  for (const RankStatus& rank : task.status.ranks) {
    if (rank.local_rank >= task.stacks.size()) {
      return;
    }
    RankStack& stack = task.stacks[rank.local_rank];
    if (stack.looks == 0) {
      continue;
    }
    --stack.looks;
    if (stack.asked && stack.place.empty()) {
      stack.place = StackPlaceFrom(LogFolder(task), rank.rank, stack.log_from);
    }
    if (stack.connections.unanswered.empty()) {
      stack.connections = connections.Of(stack.pids);
    }
  }
}

std::string AgentLoop::LogFolder(const HeldTask& task) const {
  return config_.state_dir + "/tasks/" + task.key + "/" + kLogsFolder;
}

std::string AgentLoop::EarlyKey(const std::string& image) {
  return "early " + image;
}

// It only hurries: what fails here is tried again, and said, when the job starts.
void AgentLoop::FetchEarly(const tide::v1::FetchImage& order) {
  constexpr size_t kAtATime = 16;
  const std::string& image = order.image();
  if (images_ == nullptr || early_.size() >= kAtATime || !early_.insert(image).second) {
    return;
  }
  const std::string key = EarlyKey(image);
  log::Info("Fetching image for a job to come",
            {{"Job", "j-" + std::to_string(order.job_id())}, {"Image", image}});
  const auto settle = [this, key, image](const Result<Image>& fetched) {
    Post([this, key, image, error = fetched ? "" : fetched.error().message] {
      images_->Settle(key);
      early_.erase(image);
      if (!error.empty()) {
        log::Info("Image not there ahead of time", {{"Image", image}, {"Error", error}});
      }
    });
  };
  images_->Fetch(key, image, kAnybody, settle, FetchUrgency::kAhead);
}

// For people; empty when nothing is under way.
std::string AgentLoop::Preparing(const HeldTask& task) {
  if (task.fetch == 0) {
    return "";
  }
  std::string said = images_->Progress(task.key);
  const std::string& image = task.start.spec().image();
  if (!said.empty() && early_.contains(image)) {
    said = images_->Progress(EarlyKey(image));  // it waits for that one
  }
  return said.empty() ? "" : config_.name + ": " + said;
}

void AgentLoop::OnAgreementOver(const TaskId& id, uint64_t serial, Agreement::Phase phase) {
  log::Info("Agreement over",
            {{"Task", TaskKey(id)},
             {"Result",
              phase == Agreement::Phase::kCommitted   ? "committed"
              : phase == Agreement::Phase::kSignalled ? "signalled"
                                                      : "aborted"}});
  const auto lead = leads_.find(id);
  if (lead != leads_.end() && lead->second.serial == serial &&
      (core_.Find(id) == nullptr || phase == Agreement::Phase::kAborted)) {
    leads_.erase(lead);  // a later order begins anew
  }
}

void AgentLoop::OnSaveOver(const TaskId& id,
                           uint64_t serial,
                           Agreement::Phase phase,
                           int64_t step) {
  const auto save = saves_.find(id);
  if (save == saves_.end() || save->second.serial != serial) {
    return;
  }
  saves_.erase(save);
  if (phase == Agreement::Phase::kCommitted) {
    log::Info("Periodic save ordered", {{"Task", TaskKey(id)}, {"Step", step}});
  } else {
    log::Info("Periodic save left out", {{"Task", TaskKey(id)}});
  }
}

void AgentLoop::StopValidation() {
  if (stop_validation_ != nullptr) {
    stop_validation_->Raise();
  }
}

void AgentLoop::Validate(const tide::v1::Validate& order) {
  if (validating_ == order.request_id()) {
    return;
  }
  if (validation_.request_id() == order.request_id()) {
    validation_unsent_ = true;
    return;
  }
  const bool has_task = std::ranges::any_of(
      held_, [&](const auto& entry) { return !core_.Find(entry.first)->exited(); });
  if (order.yields() && has_task) {
    return;
  }
  if (!validating_.empty() || repair_left_) {
    next_validation_ = order;  // one at a time: they would measure each other
    if (validation_yields_) {
      StopValidation();
    }
    return;
  }
  if (validator_.joinable()) {
    validator_.join();  // its result is here, so it has ended
  }
  validating_ = order.request_id();
  validation_yields_ = order.yields();
  stop_validation_ = std::make_shared<validators::StopSignal>();
  log::Info("Validating", {{"Request", order.request_id()}, {"Suite", order.suite()}});
  if (order.repairs_size() > 0) {
    gpus_left_alone_ = true;  // until Repair is over: a driver does not reset what is open
    gpu_observer_.End(MonotonicNanos());
  }
  validator_ = std::thread([this, order, stop = stop_validation_] {
    Post([this, report = RunValidators(order, *stop)] {
      validation_ = report;
      validation_unsent_ = true;
      validating_.clear();
      validation_yields_ = false;
      stop_validation_.reset();
      ValidateNext();
    });
  });
}

void AgentLoop::ValidateNext() {
  if (const auto next = std::exchange(next_validation_, std::nullopt)) {
    Validate(*next);
  }
}

void AgentLoop::SeeGpusAgain() {
  gpus_left_alone_ = false;
  gpus_seen_ns_ = MonotonicNanos();
}

void AgentLoop::TendLeftRepair() {
  if (!repair_left_) {
    return;
  }
  repair_left_ = left_repair_.Tend(MonotonicNanos());
  if (!repair_left_) {
    log::Warning("The repair that an earlier agent began is over",
                 {{"Failure", left_repair_.failure()}});
    SeeGpusAgain();
    ValidateNext();
  }
}

void AgentLoop::Repair(const tide::v1::Validate& order,
                       const validators::StopSignal& stop,
                       tide::v1::ValidationReport& report) {
  std::vector<validators::RepairOrder> asked;
  for (const tide::v1::Repair& each : order.repairs()) {
    asked.push_back({each.step(), {each.devices().begin(), each.devices().end()}});
  }
  const validators::RepairRequest request{order.request_id(),
                                          config_.validator_dir,
                                          validators::RepairNotePath(config_.state_dir),
                                          validators::RepairLockPath(config_.state_dir),
                                          BootId(),
                                          left_repair_.failure()};
  for (const validators::RepairOrder& each : validators::RebootLast(std::move(asked))) {
    if (stop.raised()) {
      break;  // the agent ends, and reports nothing any more
    }
    log::Warning("Repairing", {{"Step", each.step}, {"Request", request.id}});
    // After one that failed as well: a reboot may help where a reset did not.
    const validators::Verdict verdict = validators::RunRepair(each, request, &stop);
    log::Warning("Repair is over",
                 {{"Step", each.step},
                  {"Verdict", validators::OutcomeName(verdict.outcome)},
                  {"Evidence", verdict.evidence}});
    AddVerdicts({verdict}, report);
  }
  Post([this] { SeeGpusAgain(); });
}

// Runs on a thread of its own.
tide::v1::ValidationReport AgentLoop::RunValidators(const tide::v1::Validate& order,
                                                    const validators::StopSignal& stop) {
  tide::v1::ValidationReport report;
  report.set_request_id(order.request_id());
  if (order.repairs_size() > 0) {
    Repair(order, stop, report);
  }
  Result<std::vector<validators::SuiteEntry>> suite;
  if (!order.as_peer()) {
    suite = validators::SuiteFor(
        order.suite(), config_.validator_dir, config_.state_dir, config_.sys_dir);
  }
  if (!suite) {
    log::Failure("No such suite", {{"Error", suite.error().message}});
    return report;
  }
  validators::AddValidators(
      {order.validators().begin(), order.validators().end()}, config_.validator_dir, *suite);
  if (order.has_fabric()) {
    AddFabric(config_, order.fabric(), *suite);
  }
  std::erase_if(*suite, [&](const validators::SuiteEntry& entry) {
    return std::ranges::find(order.passed_over(), entry.validator) != order.passed_over().end();
  });
  AddVerdicts(validators::RunSuite(*suite, &stop), report);
  if (order.has_fabric()) {
    ::unlink(FabricTokenFile(config_).c_str());
  }
  return report;
}

}  // namespace tide::agent
