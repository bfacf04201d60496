#pragma once
// The agent's decisions about all tasks of its node: which orders it obeys, what it saves before it
// acts, when it is cut off, what it reports. A machine without clock, thread or I/O; the daemon
// (agent/server) and the simulator (sim/chaos) carry its effects out.
//
// Invariants:
//  A1 a message of an older stream or a lower term changes nothing.
//  A2 an order is saved before it is carried out; noted and not in the runtime = not started.
//  A3 an end is reported, over restarts too, until the scheduler says that it may be forgotten.
//  A4 after isolation_timeout without an answer every task is killed. An answer is as fresh as what
//     it answers: one that waited in a socket, or in a network, tells of the past. On a stream
//     without an answer for so long nothing is obeyed: it is dropped for a new one.
//  A5 the Hellos of a node are numbered upwards, over restarts and reboots: a scheduler may read
//     one late, after a newer one, and must not believe it.
//  A6 a task of another job that had the same number is ended and never reported.
//     A scheduler that answers nothing for ten seconds is left, too: another may lead.
//  A7 a task of a gang is also killed `witness_timeout` after the scheduler answered or, later, the
//     newest question was sent to which a peer said that its task of the gang is alive. No agent
//     says so of a task that is gone, told to go, or whose own lease is over.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/task_machine.h"

namespace tide::agent {

class AgentCore {
 public:
  // All as saved by the agent before this one.
  AgentCore(uint64_t highest_term, Contact contact, uint64_t hello_number = 0)
      : highest_term_(highest_term), contact_(contact), hello_number_(hello_number) {}

  // What is to be done now, in order. Each input below may add to it.
  [[nodiscard]] Effects TakeEffects() { return std::exchange(effects_, {}); }

  // --- the stream to the scheduler ---
  // A Hello with hello_number() follows, once the effects are carried out.
  void OnStream(uint64_t stream, AgentTime now);
  void OnLost(uint64_t stream);
  // True: obey it. False: it came on an old stream, from a former leader, or too late.
  [[nodiscard]] bool Accept(uint64_t stream, uint64_t term, AgentTime now);
  // witness_ms: Contact::witness_ms of tasks of gangs; 0 = this scheduler has no use for witnesses.
  void OnWelcome(int64_t heartbeat_ms, int64_t isolation_ms, AgentTime now, int64_t witness_ms = 0);
  // The number to send with a heartbeat, and its answer.
  [[nodiscard]] uint64_t OnHeartbeat(AgentTime now);
  // number 0: the scheduler is of a release that names none, and answers one after the other.
  void OnHeartbeatAnswered(uint64_t number, AgentTime now);
  // May orders of the leader be carried out? No while its term is not saved: the stream is left,
  // and on the next they are said again. Its answers count all the same.
  [[nodiscard]] bool TakesOrders();
  // newest_hello: the number that the scheduler has seen of this node; 0 = not said.
  void OnRefused(uint64_t newest_hello) { hello_number_ = std::max(hello_number_, newest_hello); }
  [[nodiscard]] uint64_t stream() const { return stream_; }
  [[nodiscard]] bool welcomed() const { return welcomed_; }
  [[nodiscard]] uint64_t hello_number() const { return hello_number_; }
  [[nodiscard]] uint64_t highest_term() const { return highest_term_; }
  // For this stream's Hello: no task of a gang here goes on for longer without scheduler and
  // witness, 0 = there is none; nothing = one may, up to the isolation timeout.
  [[nodiscard]] std::optional<int64_t> hello_witness_ms() const { return hello_witness_ms_; }
  // The same of the time without the scheduler, witness or not.
  [[nodiscard]] int64_t hello_isolation_ms() const { return hello_isolation_ms_; }
  [[nodiscard]] int64_t heartbeat_ms() const { return heartbeat_ms_; }

  // --- orders ---
  struct StartOrder {
    TaskId id;
    int64_t submitted_at = 0;  // tells jobs of one number apart; 0 = not said
    TaskTerms terms = {};
    uint32_t tasks = 1;            // of its gang
    bool in_the_way = false;       // something of another job is left under this id
    bool prepare = false;          // it needs a PrepareTask first
    int64_t start_timeout_ms = 0;  // from its launch until all ranks run; 0 = any time
  };
  // False: held already, this agent is ending, or something is in the way: it is ordered again on
  // the stream after OnStrayGone.
  [[nodiscard]] bool OnStart(const StartOrder& order);
  // The scheduler does not know this task, only one of the same number.
  void OnStranger(const TaskId& id);
  void OnSuspend(const TaskId& id, const Notice& notice, int64_t committed_step);
  void OnWithdraw(const TaskId& id, int64_t committed_step);
  void OnStop(const TaskId& id, bool kill, Duration grace, AgentTime now);
  void OnForget(const TaskId& id, AgentTime now);
  // From the leader of the agreement: no rank uses the SDK. deadline: as the leader says it, which
  // tells one suspension from the next. It asks until IsSignalled.
  void OnSignalAsked(const TaskId& id, int64_t deadline);
  [[nodiscard]] bool IsSignalled(const TaskId& id, int64_t deadline) const;
  // Takes no new task; with `stop_tasks` ends those it has.
  void OnStopAgent(bool stop_tasks, AgentTime now);

  // --- answers to effects ---
  enum class Fault {
    kJob,   // what the job asks for cannot be had
    kNode,  // the job tries again elsewhere
    kUser,  // the same, and the node did nothing wrong: it does not know the job's user, or that
            // one has his share of it
  };
  void OnSaveFailed(const TaskId& id, const std::string& error);
  void OnTermSaveFailed() { term_saved_ = false; }
  // May the SignalRanks that is due be carried out?
  [[nodiscard]] bool IsSignalling(const TaskId& id) const;
  void OnSignalSent(const TaskId& id, bool sent);
  void OnLooked(const TaskId& id, AgentTime now);
  // Of a PrepareTask: it takes time.
  void OnPreparing(const TaskId& id);
  // It is there. Nothing happens where the task is not waiting for it any more.
  void OnPrepared(const TaskId& id, AgentTime now);
  void OnPrepareFailed(const TaskId& id, Fault fault, const std::string& error);
  void OnLaunched(const TaskId& id, AgentTime now);
  void OnLaunchFailed(const TaskId& id, Fault fault, const std::string& error);
  void OnCleared(const TaskId& id, bool cleared);
  // Nothing is left of a task that was disowned or found without an order.
  void OnStrayGone(const TaskId& id);
  // May the PrepareTask or LaunchTask that is due be carried out?
  [[nodiscard]] bool IsLaunching(const TaskId& id) const;

  // --- what is seen ---
  // Takes up what an earlier agent saved; of a task that has not ended, OnNews comes next.
  // False: it never ran; its record may go.
  //   start: how long it has from now on until all its ranks run, as its order said.
  struct StartWait {
    int64_t timeout_ms = 0;
    AgentTime since;
  };
  [[nodiscard]] bool Adopt(TaskRecord record,
                           bool in_runtime,
                           const TaskTerms& terms,
                           std::optional<StartWait> start = std::nullopt);
  // Of an adopted task of a gang. saved: what its supervisor reads; nothing = it was started by an
  // agent that knew no witnesses.
  void AdoptGang(const TaskId& id, uint32_t tasks, const std::optional<Contact>& saved);
  // Takes up a task that runs and whose order and record cannot be read. It is ended, and reported
  // until it is: absence from a Hello would mean that nothing of it is left.
  void AdoptUnread(const TaskId& id, const std::string& why, AgentTime now);
  // This agent cannot go on with a task: it is ended, by no fault of its job.
  void GiveUp(const TaskId& id, const std::string& why, AgentTime now);
  // A task took too much of the node: it is ended, by the fault of its job.
  void EndOverLimit(const TaskId& id, const std::string& why, AgentTime now);
  void OnPages(const TaskId& id, const PagesSeen& pages, AgentTime now);
  void OnNews(const TaskId& id, TaskNews news, const PagesSeen& pages, AgentTime now);
  void SetOutcomeMessage(const TaskId& id, std::string text);
  // Now and then: stops that did not work, being cut off. A look may take the runtime seconds, so
  // there is one at a time: at the task that waits longest.
  void LookAgain(AgentTime now);
  // Every heartbeat_ms: is this node cut off, does its scheduler still answer?
  void CheckContact(AgentTime now);
  void CheckIsolation(AgentTime now);

  // --- witnesses ---
  // The answer to an AskWitness.
  void OnWitness(const TaskId& id, uint64_t number, bool alive, AgentTime now);
  // What this agent may say of its task when a peer asks: yes, until then.
  struct Testimony {
    int64_t submitted_at = 0;  // of the job; one of the same number is another; 0 = not said
    int64_t until_ns = 0;      // steady time: its own lease
    [[nodiscard]] bool IsAlive(int64_t asked_submitted_at, int64_t now_ns) const {
      const bool same = submitted_at == 0 || asked_submitted_at == 0;
      return (same || submitted_at == asked_submitted_at) && now_ns < until_ns;
    }
  };
  // Of each task of a gang that is alive. To be asked for anew before anything is reported.
  [[nodiscard]] std::map<TaskId, Testimony> Testimonies() const;

  // --- reports ---
  // Of every task, for a Hello, or of those that changed since they were reported. Both count as
  // reported.
  [[nodiscard]] std::vector<HeldReport> AllReports(AgentTime now);
  [[nodiscard]] std::vector<HeldReport> ChangedReports(AgentTime now);

  [[nodiscard]] const TaskMachine* Find(const TaskId& id) const;
  [[nodiscard]] const std::map<TaskId, TaskMachine>& tasks() const { return tasks_; }
  [[nodiscard]] bool AllGone() const;
  // How long pages may go unlooked at.
  [[nodiscard]] Duration ScanInterval() const;

 private:
  TaskMachine* FindTask(const TaskId& id);
  // The scheduler has answered what was asked at `asked_ns`.
  void Heard(int64_t asked_ns, AgentTime now);
  [[nodiscard]] bool IsOldNews(AgentTime now) const;
  void LeaveStream();
  // Of this stream: since when the oldest question waits; nothing = all are answered.
  [[nodiscard]] std::optional<int64_t> WaitsSince() const;
  void LeaveSilence(AgentTime now);
  [[nodiscard]] Contact LeaseOf(const TaskMachine& task) const;
  [[nodiscard]] std::optional<int64_t> WitnessTimeout() const;
  // Saves and renews the lease of a task of a gang.
  void KeepLease(TaskMachine& task, AgentTime now);

  std::map<TaskId, TaskMachine> tasks_;
  TaskId launching_;  // job 0 = none
  Effects effects_;
  uint64_t highest_term_;
  bool term_saved_ = true;
  Contact contact_;
  int64_t contact_saved_ns_ = 0;
  int64_t witness_ms_ = 0;  // as the last Welcome says
  std::optional<int64_t> hello_witness_ms_;
  int64_t hello_isolation_ms_ = 0;
  uint64_t hello_number_;
  uint64_t stream_ = 0;
  bool welcomed_ = false;
  int64_t hello_ns_ = 0;                    // steady time of the stream's Hello
  std::map<uint64_t, int64_t> unanswered_;  // heartbeats of this stream, by steady time
  uint64_t next_heartbeat_ = 1;
  bool ending_ = false;
  std::set<TaskId> refused_;  // starts: something was in their way
  int64_t heartbeat_ms_ = 1000;
};

}  // namespace tide::agent
