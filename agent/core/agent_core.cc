#include "agent/core/agent_core.h"

#include <algorithm>

namespace tide::agent {
namespace {

// Steps take milliseconds; while a stop is agreed upon, look often.
constexpr Duration kScanSuspend = Duration::Millis(5);
constexpr Duration kScanRunning = Duration::Millis(100);
constexpr int64_t kHeartbeatMinMs = 10;
constexpr int64_t kContactSaveNs = 1'000'000'000;
// So long a scheduler may leave a heartbeat without an answer, or so many beats; a Hello, which
// waits for a commit, twice as long.
constexpr int64_t kSilenceMs = 10'000;
constexpr int64_t kSilenceBeats = 10;

TaskRecord NewRecord(const TaskId& id, int64_t submitted_at = 0) {
  TaskRecord record;
  record.id = id;
  record.submitted_at = submitted_at;
  return record;
}

}  // namespace

TaskMachine* AgentCore::FindTask(const TaskId& id) {
  const auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : &it->second;
}

const TaskMachine* AgentCore::Find(const TaskId& id) const {
  const auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : &it->second;
}

// --- the stream ---------------------------------------------------------------------------------

void AgentCore::OnStream(uint64_t stream, AgentTime now) {
  stream_ = stream;
  welcomed_ = false;
  hello_ns_ = now.steady_ns;
  hello_witness_ms_ = WitnessTimeout();
  hello_isolation_ms_ = AllGone() ? 0 : contact_.isolation_ms;
  // Of the clock, so that a node whose disk was replaced goes on above its old numbers.
  hello_number_ = std::max(hello_number_ + 1, static_cast<uint64_t>(now.wall_ns));
  effects_.emplace_back(SaveHelloNumber{hello_number_});
  unanswered_.clear();
  next_heartbeat_ = 1;
}

void AgentCore::OnLost(uint64_t stream) {
  if (stream == stream_) {
    stream_ = 0;
    welcomed_ = false;
  }
}

bool AgentCore::Accept(uint64_t stream, uint64_t term, AgentTime now) {
  if (stream != stream_) {
    return false;
  }
  if (IsOldNews(now)) {
    CheckIsolation(now);
    LeaveStream();
    return false;
  }
  if (term < highest_term_) {
    return false;
  }
  if (term > highest_term_ || !term_saved_) {
    highest_term_ = term;
    term_saved_ = true;  // or OnTermSaveFailed
    effects_.emplace_back(SaveTerm{term});
  }
  CheckIsolation(now);  // before anything is believed that may have waited for long
  return true;
}

bool AgentCore::TakesOrders() {
  if (!term_saved_) {
    LeaveStream();
  }
  return term_saved_;
}

// What waited in the socket while this agent was stopped may be older than the isolation timeout,
// or than what a task of a gang has without a witness: by now the scheduler has given the order to
// another node.
bool AgentCore::IsOldNews(AgentTime now) const {
  const Contact since{.heard_ns = std::max(contact_.heard_ns, hello_ns_),
                      .isolation_ms = contact_.isolation_ms,
                      .witness_ms = witness_ms_};
  return since.IsCutOff(now.steady_ns);
}

void AgentCore::LeaveStream() {
  effects_.emplace_back(DropStream{stream_});
  stream_ = 0;
  welcomed_ = false;
}

std::optional<int64_t> AgentCore::WaitsSince() const {
  if (!welcomed_) {
    return hello_ns_;
  }
  return unanswered_.empty() ? std::nullopt : std::optional(unanswered_.begin()->second);
}

// A scheduler that hangs, or does not know whether it still leads, keeps its streams open. Another
// may lead meanwhile.
void AgentCore::LeaveSilence(AgentTime now) {
  const std::optional<int64_t> since = stream_ == 0 ? std::nullopt : WaitsSince();
  const int64_t beat_ms = std::max(kSilenceMs, kSilenceBeats * heartbeat_ms_);
  const int64_t most_ns = (welcomed_ ? 1 : 2) * beat_ms * 1'000'000;
  if (since && now.steady_ns - *since > most_ns) {
    LeaveStream();
  }
}

// The lease is saved before any order of this stream is carried out: supervisors read it.
void AgentCore::OnWelcome(int64_t heartbeat_ms,
                          int64_t isolation_ms,
                          AgentTime now,
                          int64_t witness_ms) {
  welcomed_ = true;
  heartbeat_ms_ = std::max(kHeartbeatMinMs, heartbeat_ms);
  contact_.isolation_ms = isolation_ms;
  witness_ms_ = witness_ms < isolation_ms ? std::max<int64_t>(0, witness_ms) : 0;
  for (auto& [id, task] : tasks_) {
    // A supervisor that reads no lease of its task's own would not keep to it.
    if (GangLease* gang = task.gang(); gang != nullptr && gang->saved) {
      gang->SetTimeout(witness_ms_);
    }
  }
  contact_saved_ns_ = 0;
  Heard(hello_ns_, now);
}

uint64_t AgentCore::OnHeartbeat(AgentTime now) {
  unanswered_[next_heartbeat_] = now.steady_ns;
  return next_heartbeat_++;
}

void AgentCore::OnHeartbeatAnswered(uint64_t number, AgentTime now) {
  const auto asked = number == 0 ? unanswered_.begin() : unanswered_.find(number);
  if (asked == unanswered_.end()) {
    return;
  }
  const int64_t asked_ns = asked->second;
  unanswered_.erase(unanswered_.begin(), std::next(asked));  // those before it are never answered
  Heard(asked_ns, now);
}

void AgentCore::Heard(int64_t asked_ns, AgentTime now) {
  contact_.heard_ns = std::max(contact_.heard_ns, asked_ns);
  CheckIsolation(now);
}

void AgentCore::CheckContact(AgentTime now) {
  CheckIsolation(now);
  LeaveSilence(now);
}

// Cut off for longer than the scheduler waits before it starts the tasks elsewhere: end them here
// first, so that no rank runs twice.
void AgentCore::CheckIsolation(AgentTime now) {
  if (!contact_.IsCutOff(now.steady_ns) &&
      contact_.heard_ns - contact_saved_ns_ >= kContactSaveNs) {
    contact_saved_ns_ = contact_.heard_ns;
    effects_.emplace_back(SaveContact{contact_});
  }
  for (auto& [id, task] : tasks_) {
    if (LeaseOf(task).IsCutOff(now.steady_ns)) {
      task.CutOff(now, effects_);
    } else if (task.gang() != nullptr && !task.exited()) {
      KeepLease(task, now);
    }
  }
}

// --- witnesses ----------------------------------------------------------------------------------

Contact AgentCore::LeaseOf(const TaskMachine& task) const {
  return task.gang() == nullptr ? contact_ : task.gang()->Of(contact_);
}

// What a supervisor reads lags behind, never ahead: it would end its task too early, not too late.
// A timeout that changed is saved at once.
void AgentCore::KeepLease(TaskMachine& task, AgentTime now) {
  GangLease& gang = *task.gang();
  if (!gang.saved) {
    return;  // its supervisor reads the node's
  }
  const TaskId& id = task.record().id;
  const Contact lease = gang.Of(contact_);
  const Contact& saved = *gang.saved;
  const bool same =
      lease.isolation_ms == saved.isolation_ms && lease.witness_ms == saved.witness_ms;
  if (!same || lease.heard_ns - saved.heard_ns >= kContactSaveNs ||
      lease.witnessed_ns - saved.witnessed_ns >= kContactSaveNs) {
    gang.saved = lease;
    effects_.emplace_back(SaveTaskContact{id, lease});
  }
  if (!task.alive()) {
    return;  // it ends anyway, soon
  }
  if (const auto question = gang.Ask(contact_, now.steady_ns)) {
    effects_.emplace_back(AskWitness{id, question->peer, question->number, question->wait_ms});
  }
}

void AgentCore::OnWitness(const TaskId& id, uint64_t number, bool alive, AgentTime now) {
  TaskMachine* task = FindTask(id);
  if (task == nullptr || task->gang() == nullptr) {
    return;
  }
  task->gang()->OnAnswer(number, alive);
  // After a "no" the next peer is asked with the next heartbeat: a peer that is down says it in a
  // millisecond, and would be asked a thousand times a second.
  if (alive) {
    CheckIsolation(now);
  }
}

std::map<TaskId, AgentCore::Testimony> AgentCore::Testimonies() const {
  std::map<TaskId, Testimony> testimonies;
  for (const auto& [id, task] : tasks_) {
    if (task.gang() != nullptr && task.alive()) {
      testimonies[id] = {task.record().submitted_at, LeaseOf(task).ExpiresNs()};
    }
  }
  return testimonies;
}

std::optional<int64_t> AgentCore::WitnessTimeout() const {
  int64_t longest_ms = 0;
  for (const auto& [id, task] : tasks_) {
    if (task.exited() || task.gang() == nullptr) {
      continue;
    }
    if (task.gang()->timeout_ms() == 0) {
      return std::nullopt;
    }
    longest_ms = std::max(longest_ms, task.gang()->timeout_ms());
  }
  return longest_ms;
}

// --- orders -------------------------------------------------------------------------------------

bool AgentCore::OnStart(const StartOrder& order) {
  const TaskId& id = order.id;
  bool in_the_way = order.in_the_way;
  if (const TaskMachine* held = Find(id)) {
    const int64_t submitted_at = held->record().submitted_at;
    if (order.submitted_at != 0 && submitted_at != 0 && submitted_at != order.submitted_at) {
      OnStranger(id);
      in_the_way = true;
    }
  }
  if (in_the_way) {
    refused_.insert(id);
    return false;
  }
  if (ending_ || tasks_.contains(id)) {
    return false;
  }
  TaskMachine& task = tasks_.emplace(id, NewRecord(id, order.submitted_at)).first->second;
  task.SetTerms(order.terms);
  task.SetStartTimeout(order.start_timeout_ms);
  launching_ = id;
  effects_.emplace_back(SaveTask{id});
  if (order.tasks > 1) {
    GangLease gang(order.tasks, id.task, witness_ms_);
    gang.saved = gang.Of(contact_);
    task.SetGang(gang);
    effects_.emplace_back(SaveTaskContact{id, *gang.saved});
  }
  if (order.prepare) {
    task.BeginPreparing();
    effects_.emplace_back(PrepareTask{id});
  } else {
    effects_.emplace_back(LaunchTask{id});
  }
  return true;
}

// It is ended, and nothing is said of it any more.
void AgentCore::OnStranger(const TaskId& id) {
  if (tasks_.erase(id) != 0) {
    effects_.emplace_back(DisownTask{id});
  }
}

void AgentCore::OnSuspend(const TaskId& id, const Notice& notice, int64_t committed_step) {
  if (TaskMachine* task = FindTask(id)) {
    task->Suspend(notice, committed_step, effects_);
  }
}

void AgentCore::OnWithdraw(const TaskId& id, int64_t committed_step) {
  if (TaskMachine* task = FindTask(id)) {
    task->Withdraw(committed_step, effects_);
  }
}

void AgentCore::OnStop(const TaskId& id, bool kill, Duration grace, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->Stop(kill, grace, now, effects_);
    return;
  }
  // Not here: say so, or the scheduler would wait for ever. A task that never ran was stopped.
  TaskMachine& never = tasks_.emplace(id, NewRecord(id)).first->second;
  never.EndUnstarted({ExitReason::kStopped, 0, 0, -1, "stopped before it had started"});
}

void AgentCore::OnForget(const TaskId& id, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->Forget(now, effects_);
  }
}

void AgentCore::OnCleared(const TaskId& id, bool cleared) {
  if (cleared) {
    tasks_.erase(id);
  }
}

void AgentCore::OnStrayGone(const TaskId& id) {
  if (refused_.erase(id) != 0) {
    LeaveStream();  // what could not be started is ordered again on the next
  }
}

void AgentCore::OnSignalAsked(const TaskId& id, int64_t deadline) {
  if (TaskMachine* task = FindTask(id)) {
    task->SignalToLeave(deadline, effects_);
  }
}

bool AgentCore::IsSignalled(const TaskId& id, int64_t deadline) const {
  const TaskMachine* task = Find(id);
  return task != nullptr && task->IsSignalled(deadline);
}

bool AgentCore::IsSignalling(const TaskId& id) const {
  const TaskMachine* task = Find(id);
  return task != nullptr && task->signalling();
}

void AgentCore::OnSignalSent(const TaskId& id, bool sent) {
  if (TaskMachine* task = FindTask(id)) {
    task->OnSignalSent(sent);
  }
}

void AgentCore::OnStopAgent(bool stop_tasks, AgentTime now) {
  ending_ = true;
  if (!stop_tasks) {
    return;
  }
  for (auto& [id, task] : tasks_) {
    task.Stop(true, Duration(), now, effects_);
  }
}

// --- starting -----------------------------------------------------------------------------------

bool AgentCore::IsLaunching(const TaskId& id) const {
  return launching_ == id;
}

void AgentCore::OnSaveFailed(const TaskId& id, const std::string& error) {
  if (IsLaunching(id)) {
    OnLaunchFailed(id, Fault::kNode, error);
  } else if (TaskMachine* task = FindTask(id)) {
    task->OnSaveFailed();
  }
}

void AgentCore::OnPreparing(const TaskId& id) {
  if (IsLaunching(id)) {
    launching_ = TaskId();
  }
}

// The agent may have been stopped since: by now the task may run elsewhere.
void AgentCore::OnPrepared(const TaskId& id, AgentTime now) {
  CheckIsolation(now);
  TaskMachine* task = FindTask(id);
  if (task == nullptr || !task->preparing()) {
    return;
  }
  task->EndPreparing();
  launching_ = id;
  effects_.emplace_back(LaunchTask{id});
}

void AgentCore::OnPrepareFailed(const TaskId& id, Fault fault, const std::string& error) {
  TaskMachine* task = FindTask(id);
  if (task == nullptr || !task->preparing()) {
    return;
  }
  launching_ = id;
  OnLaunchFailed(id, fault, error);
}

void AgentCore::OnLaunched(const TaskId& id, AgentTime now) {
  if (IsLaunching(id)) {
    launching_ = TaskId();
    FindTask(id)->OnLaunched(now);
  }
}

// What the job asks for is its own fault; a port in use, a full disk or a supervisor that does not
// come up is the node's, and the job tries again elsewhere.
void AgentCore::OnLaunchFailed(const TaskId& id, Fault fault, const std::string& error) {
  if (!IsLaunching(id)) {
    return;
  }
  launching_ = TaskId();
  const ExitReason reason = fault == Fault::kNode   ? ExitReason::kNodeFault
                            : fault == Fault::kUser ? ExitReason::kNoAccount
                                                    : ExitReason::kStartFailed;
  FindTask(id)->EndUnstarted({reason, 0, 0, -1, error});
  effects_.emplace_back(SaveTask{id});
}

bool AgentCore::Adopt(TaskRecord record,
                      bool in_runtime,
                      const TaskTerms& terms,
                      std::optional<StartWait> start) {
  if (!in_runtime && !record.exited) {
    return false;  // noted, not started: the scheduler says it again
  }
  const TaskId id = record.id;
  TaskMachine& task = tasks_.emplace(id, std::move(record)).first->second;
  task.SetTerms(terms);
  if (start) {
    task.SetStartTimeout(start->timeout_ms);
    task.OnLaunched(start->since);
  }
  return true;
}

// Witnesses of before count on, from when they were asked; so does the timeout of before.
void AgentCore::AdoptGang(const TaskId& id, uint32_t tasks, const std::optional<Contact>& saved) {
  TaskMachine* task = FindTask(id);
  if (task == nullptr || tasks < 2) {
    return;
  }
  const Contact before = saved.value_or(Contact{});
  GangLease gang(tasks, id.task, before.witness_ms, before.witnessed_ns);
  gang.saved = saved;
  task->SetGang(gang);
}

// Nobody knows what its supervisor reads: until it is gone, the scheduler waits as for a task that
// is alone.
void AgentCore::AdoptUnread(const TaskId& id, const std::string& why, AgentTime now) {
  tasks_.emplace(id, NewRecord(id)).first->second.SetGang(GangLease(0, id.task, 0));
  GiveUp(id, why, now);
}

void AgentCore::GiveUp(const TaskId& id, const std::string& why, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->GiveUp(why, now, effects_);
  }
}

void AgentCore::EndOverLimit(const TaskId& id, const std::string& why, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->EndOverLimit(why, now, effects_);
  }
}

// --- what is seen -------------------------------------------------------------------------------

void AgentCore::OnPages(const TaskId& id, const PagesSeen& pages, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->OnPages(pages, now, effects_);
  }
}

void AgentCore::OnNews(const TaskId& id, TaskNews news, const PagesSeen& pages, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->OnNews(std::move(news), pages, now, effects_);
  }
}

void AgentCore::SetOutcomeMessage(const TaskId& id, std::string text) {
  if (TaskMachine* task = FindTask(id)) {
    task->SetOutcomeMessage(std::move(text));
  }
}

void AgentCore::LookAgain(AgentTime now) {
  // The last task of before this scheduler's, or of before witnesses, is gone: it is told so.
  if (welcomed_ && witness_ms_ > 0 && !hello_witness_ms_ && WitnessTimeout()) {
    LeaveStream();
  }
  TaskMachine* next = nullptr;
  for (auto& [id, task] : tasks_) {
    task.EndIfLate(now, effects_);
    const bool sooner = next == nullptr || task.next_look_ns() < next->next_look_ns();
    if (sooner && task.NeedsLook(now)) {
      next = &task;
    }
  }
  if (next != nullptr) {
    next->LookAgain(now, effects_);
  }
}

void AgentCore::OnLooked(const TaskId& id, AgentTime now) {
  if (TaskMachine* task = FindTask(id)) {
    task->OnLooked(now);
  }
}

bool AgentCore::AllGone() const {
  return std::all_of(
      tasks_.begin(), tasks_.end(), [](const auto& entry) { return entry.second.exited(); });
}

Duration AgentCore::ScanInterval() const {
  Duration interval = Duration::Millis(heartbeat_ms_);
  for (const auto& [id, task] : tasks_) {
    if (!task.exited() && task.record().suspend_deadline != 0) {
      return kScanSuspend;
    }
    if (!task.exited()) {
      interval = kScanRunning;
    }
  }
  return interval;
}

// --- reports ------------------------------------------------------------------------------------

std::vector<HeldReport> AgentCore::AllReports(AgentTime now) {
  std::vector<HeldReport> reports;
  for (auto& [id, task] : tasks_) {
    task.SetReported(task.MakeReport(now));
    reports.push_back(task.reported());
  }
  return reports;
}

std::vector<HeldReport> AgentCore::ChangedReports(AgentTime now) {
  std::vector<HeldReport> reports;
  for (auto& [id, task] : tasks_) {
    HeldReport report = task.MakeReport(now);
    if (report != task.reported()) {
      reports.push_back(report);
      task.SetReported(std::move(report));
    }
  }
  return reports;
}

}  // namespace tide::agent
