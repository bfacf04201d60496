// Taking up what an earlier agent left running.

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
  std::set<std::string> adopted;
  for (const auto& [id, task] : held_) {
    adopted.insert(task.key);
  }
  for (const std::string& key : on_disk) {
    if (!adopted.contains(key)) {
      strays_.insert(key);  // never reported, so nobody waits for it
    }
  }
  EndStrays();
  janitor_.DiscardAll([&](const std::string& key) { return adopted.contains(key); });
  core_.CheckIsolation(Now());
  Act();
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
  const TaskId id = read->record.id;
  const tide::v1::JobSpec& spec = read->start.spec();
  if (!core_.Adopt(std::move(read->record), in_runtime, spec.memory_bytes_per_node())) {
    RemoveHeld(config_.state_dir, key);
    return {};
  }
  HeldTask& task = held_[id];
  task.start = std::move(read->start);
  task.key = key;
  if (!in_runtime) {
    return {};  // its end is reported until it is forgotten
  }
  const uint32_t ranks = task.start.spec().ranks_per_node();
  TIDE_ASSIGN(auto pages,
              TaskPages::Open(RunDir(config_, key), ranks, config_.job_uid, config_.job_gid));
  task.pages = std::move(pages);
  book_.Put(key, task.pages);
  if (core_.Find(id)->exited()) {
    task.pages->SetRanksGone(ranks);
    return {};
  }
  TIDE_TRY(sockets_.Add(key, RunDir(config_, key)));
  SetAlive(key, true);
  TIDE_ASSIGN(const TaskStatus status, runtime_->Query(key));
  UpdateStatus(task, status);
  log::Info("Task adopted", {{"Task", key}, {"Running", status.started}});
  return {};
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
  if (strays_.empty()) {
    core_.OnStraysGone();
    Act();
  }
}

void AgentLoop::EndStraysSoon() {
  next_stray_ns_ = 0;
  scan_now_ = true;
}

}  // namespace tide::agent
