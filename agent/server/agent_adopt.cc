// Taking up what an earlier agent left running.

#include <algorithm>
#include <set>
#include <utility>

#include "agent/server/agent_loop.h"
#include "agent/server/start_plan.h"
#include "common/log/log.h"

namespace tide::agent {

Status AgentLoop::Adopt() {
  TIDE_ASSIGN(const std::vector<std::string> on_disk, runtime_->List());
  const std::set<std::string> known(on_disk.begin(), on_disk.end());
  TIDE_ASSIGN(const std::vector<std::string> held, ListHeld(config_.state_dir));
  for (const std::string& key : held) {
    TIDE_TRY(AdoptTask(key, known.contains(key)));
  }
  for (const std::string& key : on_disk) {
    if (!tasks_.contains(key)) {
      strays_.insert(key);  // never reported, so nobody waits for it
    }
  }
  EndStrays();
  janitor_.DiscardAll([this](const std::string& key) { return tasks_.contains(key); });
  CheckIsolation();
  return {};
}

// in_runtime: the runtime has it; else it was noted but not started, or could not be.
Status AgentLoop::AdoptTask(const std::string& key, bool in_runtime) {
  auto read = ReadHeld(config_.state_dir, key);
  if (!read) {
    log::Failure("Journal of a task is not readable, ending it",
                 {{"Task", key}, {"Error", read.error().message}});
    RemoveHeld(config_.state_dir, key);
    return {};
  }
  HeldTask task = *std::move(read);
  if (!in_runtime) {
    if (task.exited) {
      tasks_.emplace(key, std::move(task));  // its end is reported until it is forgotten
    } else {
      RemoveHeld(config_.state_dir, key);
    }
    return {};
  }
  TIDE_ASSIGN(auto pages,
              TaskPages::Open(RunDir(config_, key),
                              task.start.spec().ranks_per_node(),
                              config_.job_uid,
                              config_.job_gid));
  task.pages = std::move(pages);
  book_.Put(key, task.pages);
  if (task.exited) {
    task.pages->SetRanksGone(task.start.spec().ranks_per_node());
    tasks_.emplace(key, std::move(task));
    return {};
  }
  TIDE_TRY(sockets_.Add(key, RunDir(config_, key)));
  SetAlive(key, true);
  HeldTask& adopted = tasks_.emplace(key, std::move(task)).first->second;
  TIDE_ASSIGN(const TaskStatus status, runtime_->Query(key));
  UpdateStatus(adopted, status);
  log::Info("Task adopted", {{"Task", key}, {"Running", status.started}});
  return {};
}

// The scheduler does not know this task, only one of the same number: it is ended, and nothing is
// said of it any more.
void AgentLoop::MakeStray(const std::string& key) {
  log::Warning("Task of a job that is not the scheduler's, ending it", {{"Task", key}});
  leads_.erase(key);
  book_.Remove(key);
  sockets_.Remove(key);
  SetAlive(key, false);
  RemoveHeld(config_.state_dir, key);
  tasks_.erase(key);
  strays_.insert(key);
}

// Tasks without an order: until nothing of them is left.
void AgentLoop::EndStrays() {
  std::erase_if(strays_, [this](const std::string& key) {
    (void)runtime_->Kill(key);
    const Status removed = runtime_->Remove(key, true);
    if (!removed && removed.error().code != ErrorCode::kNotFound) {
      return false;
    }
    janitor_.Discard(key);
    ClearRunDir(config_, key);
    return true;
  });
  if (strays_.empty() && std::exchange(start_refused_, false)) {
    DropStream();  // what could not be started is ordered again on the next
  }
}

// What waited in the socket while this agent was stopped may be older than the isolation timeout:
// by now the scheduler has given the order to another node.
bool AgentLoop::IsOldNews() const {
  const Contact since{.heard_ns = std::max(contact_.heard_ns, hello_ns_),
                      .isolation_ms = contact_.isolation_ms};
  return since.IsCutOff(BootNanos());
}

void AgentLoop::Heard() {
  CheckIsolation();  // first: the answer ends an isolation, it does not undo it
  contact_.heard_ns = BootNanos();
}

void AgentLoop::DropStream() {
  link_->Drop(stream_);
  stream_ = 0;
  welcomed_ = false;
}

// Cut off for longer than the scheduler waits before it starts the tasks elsewhere: end them here
// first, so that no rank runs twice.
void AgentLoop::CheckIsolation() {
  const int64_t now = BootNanos();
  if (!contact_.IsCutOff(now)) {
    if (contact_.heard_ns - contact_saved_ns_ >= kContactSaveNs) {
      contact_saved_ns_ = contact_.heard_ns;
      if (const Status saved = WriteContact(ContactPath(config_), contact_); !saved) {
        log::Failure("Contact not saved", {{"Error", saved.error().message}});
      }
    }
    return;
  }
  for (auto& [key, task] : tasks_) {
    if (!task.exited && !task.stop_ordered) {
      log::Warning("Cut off for too long, stopping task", {{"Task", key}});
      task.cut_off = true;
      OrderStop(task, true, Duration());
    }
  }
}

}  // namespace tide::agent
