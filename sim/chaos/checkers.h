#pragma once
// What must hold after every event. A broken rule is thrown as Broken, in words:
//  - C1: no rank runs twice, and no two live tasks share a node, at any instant, unless each has a
//    part of it and no device is in both.
//  - C2: what the scheduler believes to be running was started; what it believes to have ended is
//    gone.
//  - C3: what was acknowledged to people stays: jobs, cancellations, suspensions, drains.
//  - C4: terms, epochs and checkpoints never go back; no former leader writes or is obeyed.
//  - C5: a gang is whole: a part of it alone is not left running.
//  - C6: a job that succeeded did every step exactly once.
//  - C7: ranks leave at the very step that was agreed.
//  - C8: I1 to I7 of the scheduler's state; the log replays to the rows.
//  - C9: what is archived had ended, is on record once, and does not come back.
//  - C10: a scheduler starts on what was committed, or not at all.
//  - C11: an agent obeys no scheduler of another cluster than its own.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "agent/core/effect.h"
#include "scheduler/core/model/state.h"
#include "sim/chaos/store.h"
#include "sim/chaos/training.h"

namespace tide::chaos {

// The cluster that the checkers look at; another one has a store and nothing else.
inline const std::string kHomeCluster = "home";

// Nodes are named by their agent; the scheduler numbers them as they join. Where two agents have
// one name, the endpoint tells which of them has joined.
[[nodiscard]] inline std::string NodeName(uint32_t agent) {
  return "n" + std::to_string(agent);
}
[[nodiscard]] inline uint32_t AgentOf(const Node& node) {
  return static_cast<uint32_t>(std::stoul(node.identity.endpoint));
}

class Checkers {
 public:
  Checkers(Context& context, Training& training) : context_(context), training_(training) {}

  // --- what really happens on the nodes ---
  struct RankStart {
    uint32_t node = 0;
    agent::TaskId id;
    uint32_t rank = 0;
    uint32_t tasks = 0;    // of its gang
    uint64_t devices = 0;  // 0 = the whole node
  };
  void OnRankStart(const RankStart& start);
  // Nothing notices a hang yet: its gang is left alone.
  void OnHang(const agent::TaskId& id) { gangs_[{id.job, id.epoch}].hangs = true; }
  void OnRankGone(uint32_t node, const agent::TaskId& id, uint32_t rank);
  // It was killed and does not die: it does nothing any more, but its node is not free.
  void OnRankStuck(uint32_t node, const agent::TaskId& id, uint32_t rank);
  void OnLoad(uint64_t job, int64_t step);
  void OnFinish(const agent::TaskId& id,
                const TrainingSpec& spec,
                uint32_t rank,
                int64_t step,
                uint64_t weights);
  // Another agent's disk: what the one before it has obeyed is not on it.
  void OnOtherDisk(uint32_t node) { obeyed_.erase(node); }
  //   own, other: the clusters of the agent and of the scheduler.
  void OnObeyed(uint32_t node, uint64_t term, const std::string& own, const std::string& other);

  // --- what the schedulers do ---
  void OnState(const ClusterState& state);
  void OnLoaded(const ClusterState& state, const ClusterStore& store);
  void OnTerm(Term term);
  // The transaction is on disk.
  void OnCommitted(Term term, const ClusterStore& store, const StepResult& step);

  // --- what people were told ---
  void OnSubmitAcked(JobId job) { submitted_.insert(job); }
  void OnCancelAcked(JobId job) { cancelled_.insert(job); }
  void OnHoldAcked(JobId job) { held_.insert(job); }
  void OnReleaseAsked(JobId job) { held_.erase(job); }
  void OnDrainAcked(NodeId node) { drained_.insert(node); }
  void OnUndrainAsked(NodeId node) { drained_.erase(node); }

  // Every second.
  void OnSecond();
  void AtEnd(const ClusterStore& store);

 private:
  void EndRank(const agent::TaskId& id, uint32_t rank);
  void CheckPromises(const ClusterStore& store);
  void CheckJob(const Job& job);
  void CheckTasks(const ClusterState& rows, const Job& job);
  struct Gang {
    std::map<uint32_t, uint32_t> live;  // ranks alive, by task
    uint32_t tasks = 0;
    Instant partial_since;
    bool hangs = false;
  };

  Context& context_;
  Training& training_;
  std::map<std::pair<uint64_t, uint32_t>, agent::TaskId> running_;  // (job, rank) → its task
  struct Busy {
    uint32_t ranks = 0;  // alive
    uint64_t devices = 0;
  };
  std::map<uint32_t, std::map<agent::TaskId, Busy>> busy_;         // node → its live tasks
  std::set<std::tuple<uint32_t, agent::TaskId, uint32_t>> stuck_;  // (node, task, rank)
  std::map<std::tuple<agent::TaskId, uint32_t>, bool> started_;    // (task, node)
  std::map<std::pair<uint64_t, uint64_t>, Gang> gangs_;            // (job, epoch)
  std::map<uint64_t, std::set<uint32_t>> finished_;                // ranks that did every step
  std::map<uint32_t, uint64_t> obeyed_;                            // node → highest term
  struct Seen {
    uint64_t epoch = 0;
    int64_t checkpoint = -1;
  };
  std::map<JobId, Seen> seen_;
  Term term_;
  std::set<JobId> submitted_;
  std::set<JobId> cancelled_;
  std::set<JobId> held_;
  std::set<NodeId> drained_;
};

}  // namespace tide::chaos
