// Taking up what an earlier agent left running.

#include <iterator>
#include <set>
#include <utility>

#include "agent/runtime/leftovers.h"
#include "agent/server/agent_loop.h"
#include "agent/server/start_plan.h"
#include "agent/server/task_secrets.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

constexpr int64_t kStraysAtATimeNs = 500'000'000;
constexpr int64_t kStrayPauseNs = 1'000'000'000;

}  // namespace

Status AgentLoop::Adopt() {
  TIDE_ASSIGN(const std::vector<std::string> on_disk, runtime_->List());
  const std::set<std::string> known(on_disk.begin(), on_disk.end());
  TIDE_ASSIGN(const std::vector<std::string> held, ListHeld(config_.state_dir));
  TIDE_TRY(EndForgotten(known));
  for (const std::string& key : held) {
    AdoptTask(key, known.contains(key));
  }
  std::set<std::string> adopted;
  for (const auto& [id, task] : held_) {
    adopted.insert(task.key);
  }
  for (const std::string& key : on_disk) {
    if (!adopted.contains(key)) {
      strays_.insert(key);  // not reported if it ends at once, so nobody waits for it
    }
  }
  EndStrays();
  AdoptStrays();
  RemoveSecretsBut(config_, adopted);  // also of what waited for its image: it is ordered again
  janitor_.DiscardAll([&](const std::string& key) { return adopted.contains(key); });
  log_janitor_.DiscardAll([](const std::string& name) { return !name.starts_with('.'); });
  core_.CheckIsolation(Now());
  Act();
  return {};
}

// The run folder outlives the state folder's content, not a reboot. What runs and is not in a Hello
// would be started elsewhere, so there is none before it has ended.
Status AgentLoop::EndForgotten(const std::set<std::string>& known) {
  for (const std::string& key : ListRunDirs(config_)) {
    if (known.contains(key)) {
      continue;
    }
    TIDE_TRY(EndForgottenTask(config_.state_dir, key, RunDir(config_, key)));
    log::Warning("Task that the state folder knows nothing of has ended", {{"Task", key}});
    ClearRunDir(config_, key);
  }
  return {};
}

// in_runtime: the runtime has it; else it was noted but not started, or could not be.
void AgentLoop::AdoptTask(const std::string& key, bool in_runtime) {
  auto read = ReadHeld(config_.state_dir, key);
  if (!read) {
    AdoptUnread(key, in_runtime, read.error());
    return;
  }
  // Its agent was killed before anything of it ran: it is ordered again.
  if (in_runtime && !read->record.exited && WasUnstarted(key)) {
    in_runtime = false;
  }
  const TaskId id = read->record.id;
  const tide::v1::JobSpec& spec = read->start.spec();
  if (!core_.Adopt(std::move(read->record),
                   in_runtime,
                   TermsOf(spec),
                   AgentCore::StartWait{StartTimeoutMs(read->start), Now()})) {
    RemoveHeld(config_.state_dir, key);
    return;
  }
  core_.AdoptGang(id,
                  static_cast<uint32_t>(read->start.peers_size()),
                  ReadContact(TaskContactPath(config_, key), BootNanos()));
  HeldTask& task = held_[id];
  task.start = std::move(read->start);
  task.key = key;
  if (!in_runtime) {
    return;  // its end is reported until it is forgotten
  }
  AdoptPages(task);
  if (!core_.Find(id)->exited()) {
    AdoptStatus(task);
  }
}

bool AgentLoop::WasUnstarted(const std::string& key) {
  const auto status = runtime_->Query(key);
  return status && status->lost && status->unstarted && status->released &&
         runtime_->Remove(key, false).has_value();
}

// What does not end at once is reported until it is gone, like what cannot be read. Should it be of
// another database's job of the same number, that costs this one's a restart, and nothing else.
void AgentLoop::AdoptStrays() {
  for (auto it = strays_.begin(); it != strays_.end();) {
    const std::string key = *it;
    if (!ParseTaskKey(key)) {
      ++it;
      continue;
    }
    it = strays_.erase(it);
    AdoptUnread(key, true, Error{ErrorCode::kCorrupt, "there is no order to start it"});
  }
}

// What runs is reported until it is proven gone: the scheduler starts elsewhere what a Hello does
// not name.
void AgentLoop::AdoptUnread(const std::string& key, bool in_runtime, const Error& error) {
  log::Failure("Journal of a task is not readable", {{"Task", key}, {"Error", error.message}});
  const bool corrupt = error.code == ErrorCode::kCorrupt;
  const auto id = ParseTaskKey(key);
  if (!in_runtime || !id) {
    if (corrupt) {
      RemoveHeld(config_.state_dir, key);
    }
    return;
  }
  HeldTask& task = held_[*id];
  task.start.set_job_id(id->job);
  task.start.set_epoch(id->epoch);
  task.start.set_task(id->task);
  task.key = key;
  task.unread = !corrupt;
  core_.AdoptUnread(*id, "its agent could not read what it had noted of it", Now());
  AdoptStatus(task);
}

void AgentLoop::AdoptPages(HeldTask& task) {
  const TaskId id = IdOf(task.start);
  const uint32_t ranks = task.start.spec().ranks_per_node();
  const auto owner = OwnerOfTask(config_, task.start);
  auto pages = owner ? TaskPages::Open(RunDir(config_, task.key), ranks, owner->uid, owner->gid)
                     : std::unexpected(owner.error());
  if (!pages) {
    core_.GiveUp(id, "its agent could not open its pages: " + pages.error().message, Now());
    return;
  }
  task.pages = *std::move(pages);
  book_.Put(task.key, task.pages);
  if (core_.Find(id)->exited()) {
    task.pages->SetRanksGone(ranks);
  } else if (const Status added =
                 sockets_.Add(task.key, RunDir(config_, task.key), {ranks, owner->uid});
             !added) {
    // It only hurries: without it the pages are read a little later.
    log::Warning("No socket for ranks", {{"Task", task.key}, {"Error", added.error().message}});
  }
}

void AgentLoop::AdoptStatus(HeldTask& task) {
  SetAlive(task.key, true);
  const auto status = runtime_->Query(task.key);
  if (!status) {
    core_.GiveUp(IdOf(task.start),
                 "its agent could not learn how it stands: " + status.error().message,
                 Now());
    return;
  }
  UpdateStatus(task, *status);
  scratch_.Add(task.key, task.start.user());
  log::Info("Task adopted", {{"Task", task.key}, {"Running", status->started}});
}

// Tasks without an order, until nothing of them is left: all once a second, in turn, but each may
// take the runtime seconds.
void AgentLoop::EndStrays() {
  const int64_t until = MonotonicNanos() + kStraysAtATimeNs;
  auto it = strays_.upper_bound(last_stray_);
  while (it != strays_.end() && MonotonicNanos() < until) {
    last_stray_ = *it;
    it = EndStray(*it) ? strays_.erase(it) : std::next(it);
    BeatIfDue();
  }
  if (it == strays_.end()) {
    last_stray_.clear();
    next_stray_ns_ = MonotonicNanos() + kStrayPauseNs;
  }
  Act();
}

bool AgentLoop::EndStray(const std::string& key) {
  (void)runtime_->Kill(key);
  BeatIfDue();
  const Status removed = runtime_->Remove(key, true);
  if (!removed && removed.error().code != ErrorCode::kNotFound) {
    return false;
  }
  janitor_.Discard(key);
  ClearRunDir(config_, key);
  if (const auto id = ParseTaskKey(key)) {
    core_.OnStrayGone(*id);
  }
  return true;
}

void AgentLoop::EndStraysSoon() {
  last_stray_.clear();
  next_stray_ns_ = 0;
  scan_now_ = true;
}

}  // namespace tide::agent
