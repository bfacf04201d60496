#include "sim/chaos/machine.h"

#include <algorithm>
#include <utility>

namespace tide::chaos {
namespace {

using agent::RankPhase;

constexpr int64_t kArmedSilenceNs = 9'000'000'000;
constexpr Duration kFailureGrace = Duration::Seconds(5);
constexpr Duration kLeaseLook = Duration::Seconds(10);
constexpr Duration kStuckAfter = Duration::Seconds(30);
constexpr int32_t kSigTerm = 15;
constexpr int32_t kSigKill = 9;

}  // namespace

bool RunTask::AnyAlive() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.alive; });
}

RunTask* Machine::FindRun(const TaskId& id, uint64_t serial) {
  const auto it = tasks_.find(id);
  return it != tasks_.end() && it->second.serial == serial ? &it->second : nullptr;
}

const RunTask* Machine::Find(const TaskId& id) const {
  const auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : &it->second;
}

std::vector<TaskId> Machine::List() const {
  std::vector<TaskId> tasks;
  for (const auto& [id, task] : tasks_) {
    tasks.push_back(id);
  }
  return tasks;
}

// --- the supervisor -----------------------------------------------------------------------------

Status Machine::Launch(const StartOrder& order) {
  if (tasks_.contains(order.id)) {
    return Fail(ErrorCode::kAlreadyExists, "the task is here already");
  }
  RunTask& task = tasks_[order.id];
  task.order = order;
  task.serial = next_serial_++;
  for (uint32_t local = 0; local < order.training.ranks_per_node; ++local) {
    Rank& rank = task.ranks.emplace_back();
    rank.number = order.id.task * order.training.ranks_per_node + local;
    rank.stubborn = context_.Strikes(context_.plan.faults.stubborn_rank);
  }
  const TaskId id = order.id;
  const uint64_t serial = task.serial;
  context_.After(context_.BetweenMs(20, 300), [this, id, serial] { StartRanks(id, serial); });
  WatchLease(id, serial);
  return {};
}

void Machine::StartRanks(const TaskId& id, uint64_t serial) {
  RunTask* task = FindRun(id, serial);
  if (task == nullptr || task->lost) {
    return;
  }
  if (task->dying) {
    task->ended = true;
    Release(*task);
    return;
  }
  task->started = true;
  for (Rank& rank : task->ranks) {
    rank.alive = true;
    checkers_.OnRankStart({.node = node_,
                           .id = id,
                           .rank = rank.number,
                           .tasks = static_cast<uint32_t>(task->order.nodes.size()),
                           .devices = task->order.devices});
    Later(context_.BetweenMs(100, 800), *task, rank, &Machine::Attach);
  }
  context_.Note("ranks start", {{"node", node_}, {"job", id.job}, {"epoch", id.epoch}});
  on_news(id);
}

// The supervisor ends its task when nobody answers for the node any more, agent or not.
void Machine::WatchLease(const TaskId& id, uint64_t serial) {
  RunTask* task = FindRun(id, serial);
  if (task == nullptr || task->ended || context_.mutation == Mutation::kNoIsolation) {
    return;
  }
  agent::Contact lease = contact.value_or(agent::Contact{.heard_ns = SteadyNanos()});
  if (task->order.own_contact) {
    lease = task_contacts.at(id);
  }
  if (lease.IsCutOff(SteadyNanos())) {
    context_.Note("supervisor: lease over", {{"node", node_}, {"job", id.job}});
    task->cut_off = true;
    Stop(id, Duration());
    return;
  }
  const Duration left = Duration::Nanos(lease.ExpiresNs() - SteadyNanos());
  context_.After(std::min(left, kLeaseLook), [this, id, serial] { WatchLease(id, serial); });
}

void Machine::Stop(const TaskId& id, Duration grace) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.ended) {
    return;
  }
  RunTask& task = it->second;
  task.dying = true;
  for (Rank& rank : task.ranks) {
    if (!rank.alive) {
      continue;
    }
    if (grace == Duration()) {
      Kill(task, rank);
      if (rank.in_kernel) {
        checkers_.OnRankStuck(node_, id, rank.number);
        context_.After(kStuckAfter, [this, id, serial = task.serial] { SayStuck(id, serial); });
      }
    } else if (!rank.stubborn) {
      Later(context_.BetweenMs(10, 300), task, rank, &Machine::Kill);
    }
  }
  if (grace != Duration()) {
    context_.After(grace, [this, id] { Stop(id, Duration()); });
  }
}

void Machine::Signal(const TaskId& id) {
  if (const auto it = tasks_.find(id); it != tasks_.end()) {
    for (Rank& rank : it->second.ranks) {
      if (rank.alive && !rank.stubborn) {
        Later(context_.BetweenMs(10, 300), it->second, rank, &Machine::Kill);
      }
    }
  }
}

void Machine::Kill(RunTask& task, Rank& rank) {
  const bool stuck = context_.Strikes(context_.plan.faults.stuck_rank);
  const Duration wait = stuck ? context_.BetweenMs(2000, 150'000) : context_.BetweenMs(1, 20);
  const TaskId id = task.order.id;
  if (stuck && task.dying) {
    rank.in_kernel = true;  // it acts no more
  }
  context_.After(wait, [this, id, serial = task.serial, number = rank.number] {
    if (RunTask* found = FindRun(id, serial)) {
      for (Rank& each : found->ranks) {
        if (each.number == number && each.alive) {
          Die(*found, each, 0, found->dying ? kSigKill : kSigTerm);
        }
      }
    }
  });
}

// The supervisor gives up on ranks that do not die, and says so.
void Machine::SayStuck(const TaskId& id, uint64_t serial) {
  RunTask* task = FindRun(id, serial);
  if (task == nullptr || !task->AnyAlive() ||
      !std::ranges::all_of(task->ranks,
                           [](const Rank& rank) { return !rank.alive || rank.in_kernel; })) {
    return;
  }
  if (!task->stuck) {
    context_.Note("ranks stuck", {{"node", node_}, {"job", id.job}, {"epoch", id.epoch}});
  }
  task->stuck = true;
  on_news(id);
}

void Machine::Die(RunTask& task, Rank& rank, int32_t code, int32_t signal) {
  const TaskId id = task.order.id;
  rank.alive = false;
  rank.exited = true;
  rank.code = code;
  rank.signal = signal;
  checkers_.OnRankGone(node_, id, rank.number);
  context_.Note("rank exits",
                {{"node", node_},
                 {"job", id.job},
                 {"epoch", id.epoch},
                 {"rank", rank.number},
                 {"code", static_cast<uint64_t>(code)},
                 {"signal", static_cast<uint64_t>(signal)},
                 {"step", static_cast<uint64_t>(rank.step)}});
  training_.Break(id.job, id.epoch);
  const bool failed = signal != 0 || (code != 0 && code != agent::kLeftExitCode);
  if (failed && !task.dying) {
    // tide-init stops the others after a while, so that their errors are seen.
    context_.After(kFailureGrace, [this, id, serial = task.serial] {
      if (FindRun(id, serial) != nullptr) {
        Stop(id, Duration());
      }
    });
  }
  OnRankGone(task);
}

void Machine::OnRankGone(RunTask& task) {
  if (!task.AnyAlive()) {
    task.ended = true;
    Release(task);
  }
  on_news(task.order.id);
}

void Machine::Release(RunTask& task) {
  context_.After(context_.BetweenMs(1, 100), [this, id = task.order.id, serial = task.serial] {
    if (RunTask* found = FindRun(id, serial)) {
      found->released = true;
      on_news(id);
    }
  });
}

bool Machine::Remove(const TaskId& id) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) {
    return true;
  }
  const RunTask& task = it->second;
  if (task.AnyAlive() || !task.ended || !task.released) {
    return false;
  }
  tasks_.erase(it);
  task_contacts.erase(id);
  return true;
}

agent::TaskNews Machine::NewsOf(const TaskId& id) const {
  const RunTask& task = tasks_.at(id);
  agent::TaskNews news;
  news.started = task.started;
  news.ended = task.ended;
  news.lost = task.lost;
  news.released = task.released;
  news.cut_off = task.cut_off;
  news.stuck = task.stuck && !task.ended ? "a rank does not die" : "";
  for (const Rank& rank : task.ranks) {
    agent::RankExit exit;
    exit.rank = rank.number;
    exit.code = rank.code;
    exit.signal = rank.signal;
    exit.attached = rank.view.phase != RankPhase::kUnattached;
    exit.acknowledged = rank.view.phase == RankPhase::kAcknowledged;
    exit.done = rank.view.phase == RankPhase::kDone;
    news.ranks.push_back(exit);
  }
  return news;
}

// --- faults -------------------------------------------------------------------------------------

void Machine::CopyDisk(const Machine& original) {
  const std::string machine = ids.machine;
  ids = original.ids;
  ids.machine = machine;
  journal = original.journal;
  term = original.term;
  hello_number = original.hello_number;
  contact.reset();
  task_contacts.clear();
  checkers_.OnOtherDisk(node_);
}

void Machine::RenewDisk(const Machine& original, const std::string& state) {
  ids = {original.ids.name, ids.machine, state, ""};
  journal.clear();
  term = hello_number = 0;
  contact.reset();
  task_contacts.clear();
  checkers_.OnOtherDisk(node_);
}

void Machine::Reboot() {
  context_.Note("node reboots", {{"node", node_}});
  ++boots_;
  booted_ = context_.now() - Duration::Seconds(1);
  contact.reset();
  task_contacts.clear();
  for (auto& [id, task] : tasks_) {
    for (Rank& rank : task.ranks) {
      if (rank.alive) {
        rank.alive = false;
        checkers_.OnRankGone(node_, id, rank.number);
        training_.Break(id.job, id.epoch);
      }
      rank.view = {};
    }
    task.serial = next_serial_++;
    task.word = RunTask::Word::kIdle;
    task.committed_step = -1;
    task.lost = task.lost || !task.ended;
    task.ended = true;
    task.released = true;
  }
}

RunTask* Machine::AnyRunning() {
  for (auto& [id, task] : tasks_) {
    if (task.started && !task.ended && task.AnyAlive()) {
      return &task;
    }
  }
  return nullptr;
}

void Machine::KillSupervisor() {
  RunTask* task = AnyRunning();
  if (task == nullptr) {
    return;
  }
  context_.Note("supervisor dies", {{"node", node_}, {"job", task->order.id.job}});
  task->lost = true;
  task->dying = true;
  for (Rank& rank : task->ranks) {
    if (rank.alive) {
      Kill(*task, rank);
    }
  }
}

void Machine::FailRank() {
  if (RunTask* task = AnyRunning()) {
    for (Rank& rank : task->ranks) {
      if (rank.alive) {
        Die(*task, rank, 1, 0);
        return;
      }
    }
  }
}

void Machine::HangRank() {
  if (RunTask* task = AnyRunning()) {
    context_.Note("rank hangs", {{"node", node_}, {"job", task->order.id.job}});
    task->ranks.front().hung = true;
    checkers_.OnHang(task->order.id);
  }
}

void Machine::FailHungRanks() {
  for (auto& [id, task] : tasks_) {
    for (Rank& rank : task.ranks) {
      if (rank.alive && rank.hung) {
        Die(task, rank, 1, 0);
      }
    }
  }
}

// --- the pages ----------------------------------------------------------------------------------

std::vector<agent::RankView> Machine::ReadPages(const TaskId& id) const {
  std::vector<agent::RankView> views;
  if (const RunTask* task = Find(id)) {
    for (const Rank& rank : task->ranks) {
      views.push_back(rank.view);
    }
  }
  return views;
}

agent::AgreeReply Machine::Hold(const TaskId& id, const agent::AgreeRound& round) {
  agent::AgreeReply reply;
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) {
    return reply;
  }
  RunTask& task = it->second;
  reply.newest_round = std::max(task.newest_round, round.number);
  if (round.number < task.newest_round) {
    return reply;
  }
  task.newest_round = round.number;
  if (round.verb == agent::AgreeVerb::kArm && task.committed_step < 0) {
    task.word = RunTask::Word::kArmed;
    task.at_step = round.at_step;
    task.armed_ns = SteadyNanos();
    ++task.arming;
  } else if (round.verb == agent::AgreeVerb::kCommit) {
    task.word = RunTask::Word::kCommitted;
    task.at_step = round.at_step;
    task.committed_step = round.at_step;
  } else if (round.verb == agent::AgreeVerb::kDisarm && task.committed_step < 0) {
    task.word = RunTask::Word::kIdle;
  }
  reply.answered = true;
  reply.all_attached = true;
  reply.all_below = true;
  reply.min_step = INT64_MAX;
  for (const Rank& rank : task.ranks) {
    const bool attached = rank.view.phase != RankPhase::kUnattached;
    reply.any_attached = reply.any_attached || attached;
    reply.all_attached = reply.all_attached && attached;
    reply.min_step = std::min(reply.min_step, rank.view.step);
    reply.max_step = std::max(reply.max_step, rank.view.step);
    reply.all_below = reply.all_below && rank.view.step < round.at_step;
    reply.ranks_gone += rank.exited ? 1 : 0;
  }
  reply.committed_step = task.committed_step;
  reply.step_ns = task.order.training.step.nanos();
  WakeWaiting(task);
  return reply;
}

void Machine::DisarmIfSilent(const TaskId& id) {
  if (const auto it = tasks_.find(id); it != tasks_.end()) {
    RunTask& task = it->second;
    if (task.word == RunTask::Word::kArmed && SteadyNanos() - task.armed_ns > kArmedSilenceNs) {
      task.word = RunTask::Word::kIdle;
      WakeWaiting(task);
    }
  }
}

}  // namespace tide::chaos
