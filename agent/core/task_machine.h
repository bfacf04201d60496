#pragma once
// One task as its agent holds it: what was asked of it, what was seen of it, how it ended. No
// clock, no I/O: time comes in, effects go out.
//
// Invariants:
//  T1 what an order changes is saved before the order is carried out.
//  T2 an end is judged once, when nothing of the task is left, and never again.
//  T3 every order is idempotent: saying it again changes nothing.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/core/effect.h"
#include "agent/core/gang_lease.h"
#include "agent/core/rank_view.h"
#include "agent/core/task_outcome.h"

namespace tide::agent {

// wall: Unix time, for what people and the scheduler see. steady: never steps, goes on while the
// machine sleeps.
struct AgentTime {
  int64_t wall_ns = 0;
  int64_t steady_ns = 0;
};

// Journaled: a restarted agent judges exits the same way.
struct TaskRecord {
  TaskId id;
  int64_t submitted_at = 0;      // of the order that started it; 0 = the order said nothing
  int64_t suspend_deadline = 0;  // as the scheduler's clock says it; 0 = no suspension under way
  int64_t suspend_until = 0;     // the same by this node's clock
  bool suspend_signalled = false;
  bool stop_ordered = false;
  bool cut_off = false;  // and that because the node's lease ran out, not by the scheduler
  int64_t kill_at = 0;   // Unix ns; 0 = no stop under way
  int64_t stop_step = -1;
  int64_t parked_at = 0;
  int64_t saved_step = -1;
  int64_t saved_at = 0;
  int32_t cut_rank = -1;   // in the job; cut its page short while nobody had ordered a stop
  std::string over_limit;  // what it took too much of and was ended for; empty = nothing
  std::string given_up;    // why its agent ended it; empty = it did not
  std::string late;        // what was waited for when it had not started in time; empty = it had
  bool exited = false;
  TaskOutcome outcome;
  bool operator==(const TaskRecord&) const = default;
};

// Numbers are those of TaskState in proto/tide/v1/types.proto.
enum class HeldState : uint8_t {
  kUnreported = 0,  // the scheduler has not been told of the task
  kPreparing = 2,
  kRunning = 3,
  kStopping = 4,
  kExited = 5,
};

// What the scheduler is told of a task. It says what is, not what changed.
struct HeldReport {
  TaskId id;
  int64_t submitted_at = 0;
  HeldState state = HeldState::kUnreported;
  TaskOutcome outcome;  // of an exited task
  int64_t at = 0;       // since when it is in this state, Unix ns
  int64_t parked_at = 0;
  int64_t stop_step = -1;
  int64_t saved_step = -1;
  int64_t saved_at = 0;
  std::string stuck = {};  // TaskNews
  // Something of it hangs, but its ranks have exited: `outcome` says how.
  bool judged = false;
  bool operator==(const HeldReport&) const = default;
};

// What the runtime says, with the exits as the ranks' pages explain them.
struct TaskNews {
  bool started = false;   // every rank was started
  bool ended = false;     // no rank will run again
  bool lost = false;      // ended without a verdict
  bool released = false;  // proven: nothing of it is left
  bool cut_off = false;   // ended because its node's lease ran out
  std::string error;
  std::string stuck = {};  // what was killed and hangs in the kernel; empty = nothing
  std::vector<RankExit> ranks;
  uint32_t ranks_started = 0;
  bool ranks_over = false;  // every rank has exited: `ranks` is final
};

// How long a task that is to leave has for it.
struct Notice {
  int64_t deadline = 0;  // Unix ns, as the scheduler's clock says it
  int64_t until = 0;     // the same by this node's clock
};

struct PagesSeen {
  std::span<const RankView> ranks;
  int64_t committed_step = -1;
  int32_t cut_rank = -1;  // in the job; the first found to have cut its page short, -1 = none
};

// The rules of a task's end, from its job's spec.
struct TaskTerms {
  uint64_t memory_limit_bytes = 0;
  bool exit_ok_done = false;  // exit code 0 after the signal to leave: done, not left
};

class TaskMachine {
 public:
  explicit TaskMachine(TaskRecord record) : record_(std::move(record)) {}

  [[nodiscard]] const TaskRecord& record() const { return record_; }
  [[nodiscard]] bool exited() const { return record_.exited; }
  void SetTerms(const TaskTerms& terms) { terms_ = terms; }
  // Of a task of a gang; null for one that is alone.
  void SetGang(const GangLease& lease) { gang_ = lease; }
  [[nodiscard]] GangLease* gang() { return gang_ ? &*gang_ : nullptr; }
  [[nodiscard]] const GangLease* gang() const { return gang_ ? &*gang_ : nullptr; }
  // Nothing of it runs yet: its image is being fetched.
  void BeginPreparing() { preparing_ = true; }
  void EndPreparing() { preparing_ = false; }
  [[nodiscard]] bool preparing() const { return preparing_; }
  void SetStartTimeout(int64_t timeout_ms) { start_timeout_ms_ = timeout_ms; }
  // Its ranks are being started from now on.
  void OnLaunched(AgentTime now) { launched_ns_ = now.steady_ns; }
  // Ends it where that takes too long, by its node's fault.
  void EndIfLate(AgentTime now, Effects& out);
  // Neither gone nor told to go.
  [[nodiscard]] bool alive() const { return !record_.exited && !record_.stop_ordered; }

  // --- orders. committed_step: of the pages now, -1 = none ---
  void Suspend(const Notice& notice, int64_t committed_step, Effects& out);
  void Withdraw(int64_t committed_step, Effects& out);
  void Stop(bool kill, Duration grace, AgentTime now, Effects& out);
  // deadline: that of the suspension, as its leader says it: one signal for each.
  void SignalToLeave(int64_t deadline, Effects& out);
  void OnSignalSent(bool sent);
  [[nodiscard]] bool signalling() const { return signalling_.has_value(); }
  // Nothing is left to do for this signal.
  [[nodiscard]] bool IsSignalled(int64_t deadline) const;
  void OnSaveFailed();
  // Its node's lease ran out.
  void CutOff(AgentTime now, Effects& out);
  // This agent cannot go on with it: it is ended, and neither its job nor the node is to blame.
  void GiveUp(const std::string& why, AgentTime now, Effects& out);
  // Its job took too much of the node: the job fails, by its own doing.
  void EndOverLimit(const std::string& why, AgentTime now, Effects& out);
  // When it has exited, until it is cleared away.
  void Forget(AgentTime now, Effects& out);

  // --- what is seen ---
  void OnPages(const PagesSeen& pages, AgentTime now, Effects& out);
  void OnNews(TaskNews news, const PagesSeen& pages, AgentTime now, Effects& out);
  // Stops that did not work, ends that are not proven and what was not cleared away are tried
  // again, a second after the last look was over.
  [[nodiscard]] bool NeedsLook(AgentTime now) const;
  [[nodiscard]] int64_t next_look_ns() const { return next_look_ns_; }
  void LookAgain(AgentTime now, Effects& out);
  void OnLooked(AgentTime now);
  // It could not be started, or was stopped before it was.
  void EndUnstarted(TaskOutcome outcome) {
    preparing_ = false;
    record_.exited = true;
    record_.outcome = std::move(outcome);
  }
  void SetOutcomeMessage(std::string text) { record_.outcome.message = std::move(text); }

  // --- reports ---
  [[nodiscard]] HeldReport MakeReport(AgentTime now) const;
  [[nodiscard]] const HeldReport& reported() const { return reported_; }
  void SetReported(HeldReport report) { reported_ = std::move(report); }

 private:
  [[nodiscard]] bool Observe(const PagesSeen& pages, AgentTime now);
  void EndIfCut(const PagesSeen& pages, AgentTime now, Effects& out);
  [[nodiscard]] bool IsOverdue(AgentTime now) const;
  void EndPreparation(Effects& out);
  [[nodiscard]] TaskOutcome Judge() const;

  TaskRecord record_;
  TaskNews news_;
  HeldReport reported_;  // what the scheduler was told last
  TaskTerms terms_;
  int64_t ran_at_ = 0;                  // when this agent last saw it run, Unix ns; 0 = never
  int64_t start_timeout_ms_ = 0;        // 0 = it may take any time
  std::optional<int64_t> launched_ns_;  // steady time
  std::optional<GangLease> gang_;
  // Of the stop that this agent has sent, in steady time: the system clock may step. A stop that
  // is only on record is sent again.
  std::optional<int64_t> kill_at_ns_;
  // Deadlines of the suspensions whose signal is to be sent, and was sent by this agent.
  std::optional<int64_t> signalling_;
  std::optional<int64_t> signalled_;
  bool newly_signalled_ = false;  // the record says it since the save that is under way
  bool preparing_ = false;
  bool forgotten_ = false;
  int64_t next_look_ns_ = 0;
};

}  // namespace tide::agent
