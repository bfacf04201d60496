#pragma once
// One node as its agent finds it: a disk and a tmpfs with what agents saved, supervisors with their
// ranks, which live on when the agent dies, and the ranks' pages. Only a reboot ends all of them.

#include <map>
#include <optional>
#include <vector>

#include "agent/core/agreement.h"
#include "agent/core/task_machine.h"
#include "common/base/result.h"
#include "sim/chaos/checkers.h"
#include "sim/chaos/training.h"

namespace tide::chaos {

using agent::TaskId;

// The part of an order to start that matters here.
struct StartOrder {
  TaskId id;
  int64_t submitted_at = 0;     // tells jobs of one number apart
  std::vector<uint32_t> nodes;  // agents, by task
  bool own_contact = false;     // its supervisor reads a lease of its own
  uint64_t devices = 0;         // of a part of a node, as bits; 0 = the whole node
  TrainingSpec training;
};

// Ids by which an agent's Hello says who it is.
struct AgentIds {
  std::string name;     // of its node
  std::string machine;  // tells it from every other
  std::string state;    // of its state folder
  std::string cluster;  // that it has joined; "" = none yet
};

struct Rank {
  uint32_t number = 0;  // as the training script sees it
  agent::RankView view;
  int64_t step = 0;
  uint64_t weights = 0;
  bool alive = false;
  bool exited = false;
  bool leaving = false;  // fired: saves, acknowledges, exits
  bool hung = false;
  bool in_kernel = false;  // killed, and does not die
  bool stubborn = false;   // ignores SIGTERM
  bool attached = false;   // loaded, trains
  int32_t code = 0;
  int32_t signal = 0;
};

// A task in the runtime: its supervisor, pages and ranks.
struct RunTask {
  StartOrder order;
  uint64_t serial = 0;  // tells it from an earlier one under the same id
  std::vector<Rank> ranks;
  // The pages' order word.
  enum class Word {
    kIdle,
    kArmed,
    kCommitted
  };
  Word word = Word::kIdle;
  int64_t at_step = 0;
  int64_t committed_step = -1;
  uint64_t newest_round = 0;
  int64_t armed_ns = 0;
  uint64_t arming = 0;  // the ranks' patience begins anew with each
  // The supervisor.
  bool started = false;
  bool ended = false;
  bool lost = false;
  bool released = false;
  bool cut_off = false;
  bool stuck = false;  // the supervisor says that a rank does not die
  bool dying = false;  // told to stop before the ranks were started, or since

  [[nodiscard]] bool AnyAlive() const;
};

class Machine {
 public:
  Machine(Context& context, Training& training, Checkers& checkers, uint32_t node)
      : ids{NodeName(node), "m" + std::to_string(node), "s" + std::to_string(node), kHomeCluster},
        context_(context),
        training_(training),
        checkers_(checkers),
        node_(node) {}

  AgentIds ids;  // disk

  struct Saved {
    agent::TaskRecord record;
    StartOrder order;
  };
  std::map<TaskId, Saved> journal;                 // disk
  uint64_t term = 0;                               // disk
  uint64_t hello_number = 0;                       // disk
  std::optional<agent::Contact> contact;           // tmpfs
  std::map<TaskId, agent::Contact> task_contacts;  // tmpfs; of tasks of gangs

  // Called when a task's status changed, and when a rank's page did.
  std::function<void(const TaskId&)> on_news;
  std::function<void()> on_page;

  [[nodiscard]] uint32_t node() const { return node_; }
  [[nodiscard]] int64_t SteadyNanos() const { return (context_.now() - booted_).nanos(); }
  [[nodiscard]] uint64_t boots() const { return boots_; }

  // --- the runtime's port ---
  [[nodiscard]] Status Launch(const StartOrder& order);
  void Stop(const TaskId& id, Duration grace);
  void Signal(const TaskId& id);
  [[nodiscard]] const RunTask* Find(const TaskId& id) const;
  [[nodiscard]] std::vector<TaskId> List() const;
  // False while something of it is left.
  bool Remove(const TaskId& id);
  [[nodiscard]] agent::TaskNews NewsOf(const TaskId& id) const;
  [[nodiscard]] std::vector<agent::RankView> ReadPages(const TaskId& id) const;

  // --- the pages ---
  // Not answered when the task is not here.
  agent::AgreeReply Hold(const TaskId& id, const agent::AgreeRound& round);
  void DisarmIfSilent(const TaskId& id);

  // --- faults ---
  // Gives its disk what that of `original` holds, for a second agent of that name. Nothing runs.
  void CopyDisk(const Machine& original);
  // Gives it a new disk, for a second agent of the name of `original`'s.
  void RenewDisk(const Machine& original, const std::string& state);
  void Reboot();
  void KillSupervisor();  // of any task
  void FailRank();
  void HangRank();
  void FailHungRanks();  // somebody looked at last

 private:
  RunTask* FindRun(const TaskId& id, uint64_t serial);
  void StartRanks(const TaskId& id, uint64_t serial);
  void Attach(RunTask& task, Rank& rank);
  void Train(RunTask& task, Rank& rank);
  void Tick(RunTask& task, Rank& rank);
  void LookAtOrder(RunTask& task, Rank& rank);
  void Wait(RunTask& task, Rank& rank);
  void SaveShard(RunTask& task, Rank& rank);
  void ExitWell(RunTask& task, Rank& rank);
  void ExitSuspended(RunTask& task, Rank& rank);
  void NoteCommitted(uint64_t job, uint64_t epoch, int64_t step);
  void SayStuck(const TaskId& id, uint64_t serial);
  void Die(RunTask& task, Rank& rank, int32_t code, int32_t signal);
  void Kill(RunTask& task, Rank& rank);
  void OnRankGone(RunTask& task);
  void Release(RunTask& task);
  void WatchLease(const TaskId& id, uint64_t serial);
  void WakeWaiting(RunTask& task);
  // Does `act` to the rank later, if it still lives then.
  void Later(Duration wait,
             const RunTask& task,
             const Rank& rank,
             void (Machine::*act)(RunTask&, Rank&));
  RunTask* AnyRunning();

  Context& context_;
  Training& training_;
  Checkers& checkers_;
  const uint32_t node_;
  std::map<TaskId, RunTask> tasks_;
  uint64_t next_serial_ = 1;
  uint64_t boots_ = 1;
  Instant booted_ = Instant::FromUnixNanos(1'799'999'000'000'000'000);

 public:
  // Every machine, so that a committed checkpoint is seen by all ranks of its gang.
  std::vector<Machine*>* fleet = nullptr;
};

}  // namespace tide::chaos
