#pragma once
// Agents that obey at once, or not, as a test wants. Deterministic; they keep what would really run
// on the nodes, apart from what the scheduler believes, so that tests can compare the two.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/commands.h"

namespace tide::testing {

class FakeAgents {
 public:
  // What agents do by themselves. Off = the order is remembered until it is switched on.
  bool starts = true;
  bool saves = true;
  bool prepares = true;  // a job that starts saves at once, which shows that it will when asked
  bool stops = true;     // off: only SIGKILL ends a task
  bool validates = true;
  std::set<NodeId> unfit;      // their disks are full: no task starts there
  std::set<NodeId> strangers;  // they do not know the jobs' user
  std::string verdict = "pass";
  std::vector<std::pair<NodeId, Repairs>> repairs;  // that were ordered, in their order
  std::string repair_verdict = "pass";              // "": no word, as an agent of an older release
  std::set<NodeId> spoilers;                        // no group that they are in sums right
  std::set<std::string> missing_validators;         // installed nowhere: their verdict is "skipped"
  std::map<NodeId, Instant> cut;                    // nodes that reach nobody, since when
  std::set<JobId> parts;                            // jobs that run beside others on a node
  Duration witness_timeout;  // NodeIdentity::witness_timeout of every node; 0 = no such rule

  void Obey(const Command& command, Instant now);
  // One act of every task that can do something: start, park, save, leave. True if any did.
  bool Progress(Instant now);
  // A rank ends by itself.
  void Exit(JobId job, uint32_t task, ExitReason reason, int32_t code, Instant now);
  // The node loses power: its tasks are gone without a report.
  void Reboot(NodeId node);
  // Agents that have been cut off for `timeout` end their tasks (jobs.md section 4); of gangs also
  // `witness_timeout` after the last other task ended. Between agents nothing is cut, so each task
  // lives for as long as any rule lets it.
  void Isolate(Instant now, Duration timeout);

  // Reports since the last call, in order; those of cut nodes stay with their agents.
  [[nodiscard]] std::vector<EventBody> TakeReports();
  // What the agent of `node` says when it connects.
  [[nodiscard]] std::vector<TaskReported> Held(NodeId node) const;

  // The first broken rule, or nothing: one live task per node, one live epoch per job.
  [[nodiscard]] std::optional<std::string> CheckNoRankTwice() const;
  [[nodiscard]] size_t LiveTasks(JobId job) const;

 private:
  using Key = std::tuple<NodeId, JobId, Epoch, uint32_t>;
  struct FakeTask {
    TaskReported report;
    bool stopping = false;
    bool saving = false;
    bool saved = false;
  };

  void ObeyStop(const Key& key, const Command& command, Instant now);
  bool ProgressOf(FakeTask& task, Instant now);
  // Every rank of the gang waits at the agreed step: from here on it leaves, whatever it is told.
  [[nodiscard]] bool GangIsParked(const FakeTask& task) const;
  void End(FakeTask& task, ExitReason reason, int32_t code, Instant now);
  [[nodiscard]] size_t LiveTasks(const std::pair<JobId, Epoch>& attempt) const;
  void Say(const FakeTask& task);

  std::map<Key, FakeTask> tasks_;
  std::map<JobId, int64_t> steps_;  // the step a job has reached
  // When the last task but one of an attempt ended.
  std::map<std::pair<JobId, Epoch>, Instant> witnessed_;
  std::vector<std::pair<NodeId, EventBody>> outbox_;
  struct Validation {
    std::string request;
    std::vector<std::string> validators;
    bool yields = false;
    bool as_peer = false;
    bool broken = false;  // a node of its group was taken
    Repairs repairs = {};
  };
  // A task that is to start there breaks off what yields to it.
  void BreakOff(NodeId node);
  std::map<NodeId, Validation> validations_;
  // Return the verdict of the node's fabric validator, and those of all its validators and repairs.
  [[nodiscard]] std::string SumVerdict(const Validation& validation) const;
  [[nodiscard]] std::vector<Verdict> Verdicts(const Validation& validation, Instant now) const;
};

}  // namespace tide::testing
