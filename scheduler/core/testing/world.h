#pragma once
// A whole small cluster for a test: state, policy, time and agents. Every step checks the
// invariants and that no rank runs twice; a broken one is thrown with its text.

#include <string>
#include <vector>

#include "common/base/prng.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"
#include "scheduler/core/testing/fake_agents.h"

namespace tide::testing {

class World {
 public:
  ClusterState state;
  Policy policy;
  Instant now = Instant::FromUnixNanos(1'800'000'000'000'000'000);
  FakeAgents agents;
  std::vector<Event> log;  // everything that changed the state since the start
  StepResult last;

  explicit World(const Cluster& cluster);

  // Submits and lets the agents work until nothing moves any more.
  JobId Submit(const AJob& job, const std::string& user = "ada");
  // Applies one event, without letting the agents work.
  Result<Applied> Apply(EventBody body);
  // Applies one event and lets the agents work.
  Result<Applied> Do(EventBody body);
  // One turn of the scheduler; its commands reach the agents.
  void Turn(const std::vector<EventBody>& bodies);
  // Agents work and report until nothing moves.
  void Run();
  // Time passes, stopping wherever the scheduler asked to be woken.
  void Pass(Duration span);

  void Hold(JobId job);
  void Release(JobId job);
  void Cancel(JobId job);
  // A rank of the job ends; then everything runs.
  void Exit(JobId job, uint32_t task, ExitReason reason, int32_t code = 0);
  // Its ranks have saved this step, a moment ago.
  void Saved(JobId job, int64_t step);
  // Every rank of the job ends well.
  void Finish(JobId job);
  void Drain(uint32_t node);
  void Undrain(uint32_t node);
  void Validate(uint32_t node);
  Status Remove(uint32_t node);
  void Xid(uint32_t node, int32_t code);
  // Has its agent join again, and report that the node has so much.
  void Resize(uint32_t node, const NodeCapacity& capacity);
  // The agent is cut off and declared lost; the tasks go on there.
  void Lose(uint32_t node);
  // It connects again and says what it holds.
  void Rejoin(uint32_t node);

  [[nodiscard]] const Job& At(JobId job) const { return state.jobs.at(job); }
  [[nodiscard]] JobState Is(JobId job) const { return StateOf(At(job)); }
  [[nodiscard]] NodeState NodeIs(uint32_t node) const { return state.nodes.at(node).state; }
  // Node ids by task index; empty when it has none.
  [[nodiscard]] std::vector<uint32_t> NodesOf(JobId job) const;
  // Reasons of the last explanation; an empty list where it says nothing of the job.
  [[nodiscard]] ReasonList ReasonsOf(JobId job) const;
  // Codes of them.
  [[nodiscard]] std::vector<std::string> Why(JobId job) const;
  [[nodiscard]] const Claim* ClaimOf(JobId job) const;
  [[nodiscard]] std::string CauseOf(JobId job) const;  // of the last attempt's end

 private:
  std::vector<NodeIdentity> identities_;
};

// Returns a copy in which no waiting job is like another: a decision looks at each by itself, and
// is to come to the same.
[[nodiscard]] ClusterState WithoutAlike(const ClusterState& state);

// Joins some of the zones A, B and C, with limits, and lets some jobs cross.
void BoundRandomly(Prng& prng, Policy& policy);

}  // namespace tide::testing
