// What the core wants done, done. Results go back to the core before the next effect.

#include <unistd.h>

#include <utility>

#include "agent/runtime/task_folder.h"
#include "agent/server/agent_loop.h"
#include "agent/server/start_plan.h"
#include "agent/server/task_secrets.h"
#include "common/log/log.h"

namespace tide::agent {

void AgentLoop::Act() {
  for (Effects due = core_.TakeEffects(); !due.empty(); due = core_.TakeEffects()) {
    for (const Effect& effect : due) {
      std::visit([this](const auto& each) { Do(each); }, effect);
      BeatIfDue();
    }
  }
  PublishTestimonies();
}

void AgentLoop::Do(const SaveTask& effect) {
  const TaskMachine* task = core_.Find(effect.id);
  const HeldTask* held = FindHeld(effect.id);
  if (task == nullptr || held == nullptr || (held->unread && !task->exited())) {
    return;
  }
  const Status written = WriteHeld(config_.state_dir, {held->start, task->record()});
  if (!written) {
    log::Failure("Journal not written", {{"Task", held->key}, {"Error", written.error().message}});
    core_.OnSaveFailed(effect.id, written.error().message);
  }
}

void AgentLoop::Do(const PrepareTask& effect) {
  if (!core_.IsLaunching(effect.id)) {
    return;  // its order could not be saved
  }
  HeldTask& task = *FindHeld(effect.id);
  core_.OnPreparing(effect.id);
  // An image may take minutes to come: not for a node that cannot run it.
  if (const Status fit = Preflight(task); !fit) {
    core_.OnPrepareFailed(effect.id, AgentCore::Fault::kNode, fit.error().message);
    return;
  }
  if (images_ == nullptr) {
    const bool process = config_.runtime == RuntimeKind::kProcess;
    core_.OnPrepareFailed(effect.id,
                          process ? AgentCore::Fault::kJob : AgentCore::Fault::kNode,
                          "image " + task.start.spec().image() + " cannot be had on " +
                              config_.name + ": " +
                              (process ? "it runs plain processes; use `image: host`"
                                       : "skopeo or umoci is not installed there"));
    return;
  }
  task.fetch = next_fetch_++;
  const auto owner = config_.identities->Find(UserOf(task.start), config_.name);
  if (!owner) {
    core_.OnPrepareFailed(effect.id,
                          owner.error().code == ErrorCode::kUnavailable ? AgentCore::Fault::kNode
                                                                        : AgentCore::Fault::kUser,
                          owner.error().message);
    return;
  }
  images_->Fetch(task.key,
                 task.start.spec().image(),
                 *owner,
                 [this, id = effect.id, fetch = task.fetch](Result<Image> image) {
                   Post([this, id, fetch, image = std::move(image)] { OnImage(id, fetch, image); });
                 });
}

void AgentLoop::OnImage(const TaskId& id, uint64_t fetch, Result<Image> image) {
  HeldTask* task = FindHeld(id);
  const std::string key = TaskKey(id);
  if (task == nullptr || task->fetch != fetch) {
    return;  // of an earlier task of this name, which was called off
  }
  if (image) {
    task->image = std::move(*image);
    core_.OnPrepared(id, Now());
  } else {
    log::Warning("Image not fetched", {{"Task", key}, {"Error", image.error().message}});
    const ErrorCode code = image.error().code;
    core_.OnPrepareFailed(id,
                          code == ErrorCode::kUnavailable ? AgentCore::Fault::kNode
                          : code == ErrorCode::kExhausted ? AgentCore::Fault::kUser
                                                          : AgentCore::Fault::kJob,
                          image.error().message);
  }
  Act();
  images_->Settle(key);  // launched: its folder names the image
}

void AgentLoop::Do(const CancelPreparation& effect) {
  if (images_ != nullptr) {
    images_->Cancel(TaskKey(effect.id));
  }
}

void AgentLoop::Do(const LaunchTask& effect) {
  if (!core_.IsLaunching(effect.id)) {
    return;  // its order could not be saved
  }
  HeldTask& task = *FindHeld(effect.id);
  AgentCore::Fault fault = AgentCore::Fault::kNode;
  if (const Status launched = Launch(task, fault); !launched) {
    log::Warning("Task not started", {{"Task", task.key}, {"Error", launched.error().message}});
    sockets_.Remove(task.key);
    SetAlive(task.key, false);
    task.pages.reset();
    RemoveSecrets(config_, task.key);
    core_.OnLaunchFailed(effect.id, fault, launched.error().message);
    return;
  }
  book_.Put(task.key, task.pages);
  scratch_.Add(task.key, task.start.user());
  core_.OnLaunched(effect.id, Now());
  log::Info("Task starting", {{"Task", task.key}, {"Job", "j-" + std::to_string(effect.id.job)}});
}

// fault: whose it is, on error.
Status AgentLoop::Launch(HeldTask& task, AgentCore::Fault& fault) {
  TIDE_TRY(Preflight(task));
  auto plan = PlanStart(config_, task.start, task.image ? &*task.image : nullptr);
  if (plan && !task.secrets) {
    plan = std::unexpected(task.secrets.error());
  }
  if (!plan) {
    const bool knows_user = config_.identities->Find(UserOf(task.start), config_.name).has_value();
    fault = plan.error().code == ErrorCode::kUnavailable ? AgentCore::Fault::kNode
            : knows_user                                 ? AgentCore::Fault::kJob
                                                         : AgentCore::Fault::kUser;
    return std::unexpected(plan.error());
  }
  BeatIfDue();
  const uint32_t ranks = task.start.spec().ranks_per_node();
  TIDE_ASSIGN(auto pages, TaskPages::Open(plan->run_dir, ranks, plan->uid, plan->gid));
  task.pages = std::move(pages);
  TIDE_TRY(sockets_.Add(task.key, plan->run_dir, {ranks, plan->uid}));
  SetAlive(task.key, true);
  const Status started = runtime_->Start(*plan);
  if (!started && started.error().code == ErrorCode::kInvalidArgument) {
    fault = AgentCore::Fault::kJob;
  }
  return started;
}

void AgentLoop::Do(const StopRanks& effect) {
  const std::string key = TaskKey(effect.id);
  if (const Status stopped = runtime_->Stop(key, effect.grace); !stopped) {
    log::Warning("Stop not delivered", {{"Task", key}, {"Error", stopped.error().message}});
  }
}

void AgentLoop::Do(const SignalRanks& effect) {
  if (!core_.IsSignalling(effect.id)) {
    return;  // it could not be saved
  }
  const HeldTask& task = *FindHeld(effect.id);
  const int signal = task.start.spec().suspend_signal();
  log::Info("Task asked to leave by signal", {{"Task", task.key}, {"Signal", signal}});
  const Status sent = runtime_->Signal(task.key, signal);
  core_.OnSignalSent(effect.id, sent.has_value());
  if (!sent) {
    log::Warning("Signal not delivered", {{"Task", task.key}, {"Error", sent.error().message}});
  }
}

void AgentLoop::Do(const LookAtTask& effect) {
  HeldTask* task = FindHeld(effect.id);
  if (task == nullptr) {
    return;
  }
  if (const auto status = runtime_->Query(task->key)) {
    UpdateStatus(*task, *status);
  }
  core_.OnLooked(effect.id, Now());
}

void AgentLoop::Do(const NoteEnd& effect) {
  const HeldTask& task = *FindHeld(effect.id);
  const TaskOutcome& outcome = core_.Find(effect.id)->record().outcome;
  if (outcome.reason == ExitReason::kFailed) {
    core_.SetOutcomeMessage(effect.id, outcome.message + LastWords(task, outcome.rank));
  }
  const auto reason = static_cast<tide::v1::ExitReason>(outcome.reason);
  log::Info("Task exited",
            {{"Task", task.key},
             {"Reason", tide::v1::ExitReason_Name(reason)},
             {"Detail", outcome.message}});
  RemoveSecrets(config_, task.key);
  SetAlive(task.key, false);
}

void AgentLoop::Do(const NoteGivenUp& effect) {
  const TaskRecord& record = core_.Find(effect.id)->record();
  log::Failure("Task cannot be held on to, ending it",
               {{"Task", TaskKey(effect.id)},
                {"Error", record.late.empty() ? record.given_up : record.late}});
}

void AgentLoop::Do(const NoteCutOff& effect) {
  log::Warning("Cut off for too long, stopping task", {{"Task", TaskKey(effect.id)}});
}

void AgentLoop::Do(const NoteCutPage& effect) {
  log::Warning("Rank cut its page short, ending its task",
               {{"Task", TaskKey(effect.id)}, {"Rank", effect.rank}});
}

void AgentLoop::Do(const NoteOverLimit& effect) {
  log::Warning(
      "Task takes too much of this node, ending it",
      {{"Task", TaskKey(effect.id)}, {"Error", core_.Find(effect.id)->record().over_limit}});
}

void AgentLoop::Do(const DisownTask& effect) {
  const std::string key = TaskKey(effect.id);
  log::Warning("Task of a job that is not the scheduler's, ending it", {{"Task", key}});
  Do(CancelPreparation{effect.id});
  leads_.erase(effect.id);
  saves_.erase(effect.id);
  book_.Remove(key);
  sockets_.Remove(key);
  SetAlive(key, false);
  use_.Forget(key);
  scratch_.Forget(key);
  ForgetSignal(key);
  RemoveHeld(config_.state_dir, key);
  held_.erase(effect.id);
  strays_.insert(key);
  EndStraysSoon();
}

void AgentLoop::Do(const ClearTask& effect) {
  const std::string key = TaskKey(effect.id);
  leads_.erase(effect.id);
  saves_.erase(effect.id);
  book_.Remove(key);
  sockets_.Remove(key);
  if (const Status removed = runtime_->Remove(key, true);
      !removed && removed.error().code != ErrorCode::kNotFound) {
    log::Warning("Task not cleared away", {{"Task", key}, {"Error", removed.error().message}});
    core_.OnCleared(effect.id, false);
    return;
  }
  janitor_.Discard(key);
  use_.Forget(key);
  scratch_.Forget(key);
  ForgetSignal(key);
  ClearRunDir(config_, key);  // of a task that the runtime never had
  if (const HeldTask* const task = FindHeld(effect.id); task != nullptr && task->job_over) {
    RemoveUnusedCheckpointDir(config_, task->start);
  }
  RemoveHeld(config_.state_dir, key);
  held_.erase(effect.id);
  core_.OnCleared(effect.id, true);
}

void AgentLoop::DiscardLogs(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    // Tasks start on this thread, so none comes in between.
    const std::string task_file = config_.state_dir + "/tasks/" + key + "/" + kTaskFile;
    const auto id = ParseTaskKey(key);
    if ((id && FindHeld(*id) != nullptr) || ::access(task_file.c_str(), F_OK) == 0) {
      continue;
    }
    log::Info("Old output deleted", {{"Task", key}});
    log_janitor_.Discard(key);
  }
}

void AgentLoop::Do(const LeadAgreement& effect) {
  saves_.erase(effect.id);  // its word on the pages gives way
  const auto lead = leads_.find(effect.id);
  const bool goes_on =
      lead != leads_.end() && (!effect.renewed || lead->second.run->Renew(effect.deadline));
  if (goes_on) {
    return;
  }
  log::Info("Agreeing on a stop step", {{"Task", TaskKey(effect.id)}});
  const uint64_t serial = next_lead_++;
  leads_[effect.id] = {
      serial,
      std::make_unique<SuspendRun>(
          FindHeld(effect.id)->start,
          security_,
          effect.deadline,
          [this, id = effect.id, serial](Agreement::Phase phase, int64_t /*step*/) {
            Post([this, id, serial, phase] { OnAgreementOver(id, serial, phase); });
          })};
}

void AgentLoop::Do(const EndAgreement& effect) {
  if (const auto lead = leads_.find(effect.id); lead != leads_.end()) {
    lead->second.run->Withdraw();
  }
}

void AgentLoop::Do(const DropStream& effect) {
  link_->Drop(effect.stream);
}

void AgentLoop::Do(const SaveTerm& effect) {
  if (!SaveNumber("term", effect.term)) {
    core_.OnTermSaveFailed();
  }
}

void AgentLoop::Do(const SaveHelloNumber& effect) {
  (void)SaveNumber("hello", effect.number);  // the next agent has the clock
}

bool AgentLoop::SaveNumber(const std::string& file, uint64_t number) {
  const std::string path = config_.state_dir + "/" + file;
  const Status saved = WriteFileDurably(path, std::to_string(number));
  if (!saved) {
    log::Failure("Number not saved", {{"Path", path}, {"Error", saved.error().message}});
  }
  return saved.has_value();
}

void AgentLoop::Do(const SaveContact& effect) {
  if (const Status saved = WriteContact(ContactPath(config_), effect.contact); !saved) {
    log::Failure("Contact not saved", {{"Error", saved.error().message}});
  }
}

void AgentLoop::Do(const SaveTaskContact& effect) {
  const std::string key = TaskKey(effect.id);
  const Status saved = WriteContact(TaskContactPath(config_, key), effect.contact);
  if (saved) {
    return;
  }
  log::Failure("Contact not saved", {{"Task", key}, {"Error", saved.error().message}});
  if (core_.IsLaunching(effect.id)) {
    core_.OnSaveFailed(effect.id, saved.error().message);
  }
}

void AgentLoop::Do(const AskWitness& effect) {
  const HeldTask* task = FindHeld(effect.id);
  if (task == nullptr || effect.peer >= static_cast<uint32_t>(task->start.peers_size())) {
    return;
  }
  tide::v1::WitnessRequest request;
  request.set_job_id(effect.id.job);
  request.set_epoch(effect.id.epoch);
  request.set_task(effect.peer);
  request.set_submitted_at(task->start.submitted_at());
  witnesses_.Ask(task->start.peers(static_cast<int>(effect.peer)),
                 request,
                 Duration::Millis(effect.wait_ms),
                 [this, id = effect.id, number = effect.number](bool alive) {
                   Post([this, id, number, alive] {
                     core_.OnWitness(id, number, alive, Now());
                     Act();
                   });
                 });
}

// Before anything is reported: what is said to be gone is never again said to be alive.
void AgentLoop::PublishTestimonies() {
  std::map<TaskId, AgentCore::Testimony> testimonies = core_.Testimonies();
  const MutexLock lock(mutex_);
  testimonies_ = std::move(testimonies);
}

bool AgentLoop::IsAlive(const TaskId& id, int64_t submitted_at) {
  const int64_t now_ns = BootNanos();
  const MutexLock lock(mutex_);
  const auto it = testimonies_.find(id);
  return it != testimonies_.end() && it->second.IsAlive(submitted_at, now_ns);
}

}  // namespace tide::agent
