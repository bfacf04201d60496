#pragma once
// One turn of a leading scheduler, in the order that everything rests on: requests become events →
// Step → commit → only then publish, answer and send. The daemon's loop and the simulator supply
// the effects; this is the one place that orders them.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/step.h"

namespace tide {

struct Reply {
  Status status;         // of the first event that failed
  uint64_t rev = 0;      // view revision that shows the change
  JobId job;             // submits: which job
  bool existed = false;  // submits: the idempotency key was known
  NodeId node;           // hellos: which node
};

// What a batch of requests shares: the state before it, and the ids it hands out. Valid while the
// requests of one turn are made into events.
class BatchContext {
 public:
  BatchContext(const ClusterState& state, Instant now) : state_(state), now_(now) {}
  [[nodiscard]] const ClusterState& state() const { return state_; }
  [[nodiscard]] Instant now() const { return now_; }  // loop time
  // The first of `count` ids in a row.
  [[nodiscard]] JobId NextJob(uint32_t count = 1) {
    return JobId(state_.next_job_id + std::exchange(jobs_given_, jobs_given_ + count));
  }
  // The id of the node with this name; a new one for a new name.
  [[nodiscard]] NodeId NodeFor(const std::string& name);
  // False when this batch submits under the same key already.
  [[nodiscard]] bool ReserveKey(const std::string& key) { return keys_.insert(key).second; }

 private:
  const ClusterState& state_;
  const Instant now_;
  uint64_t jobs_given_ = 0;
  std::map<std::string, NodeId> new_nodes_;
  std::set<std::string> keys_;
};

struct Request {
  // Runs before the events of its batch are applied.
  std::function<Result<std::vector<EventBody>>(BatchContext&, Reply&)> make;
  // Runs after the commit; must not block.
  std::function<void(const Reply&)> done;
  // Leave to hold it some milliseconds, for more to come with it: no person waits for its answer.
  bool patient = false;
  // Runs once the step has said yes or no, so that what it leaves with the host is committed with
  // it. Optional.   outcome: of the first event that failed, or of `make`.
  std::function<void(const Status& outcome)> decided = {};
};

// The effects of a turn.
class TurnHost {
 public:
  TurnHost() = default;
  TurnHost(const TurnHost&) = delete;
  TurnHost& operator=(const TurnHost&) = delete;
  virtual ~TurnHost() = default;

  // What the server itself noticed, as events that follow those of the requests. What it says of a
  // node that joins in this turn is older than its Hello, and is dropped.
  [[nodiscard]] virtual std::vector<EventBody> Notice(const ClusterState& state) = 0;
  // Everything of the step on disk, or an error: then the process must end, because the state in
  // memory is ahead of the log.
  [[nodiscard]] virtual Status Commit(const ClusterState& state,
                                      const StepResult& step,
                                      Instant now) = 0;
  // Shows readers what was committed; returns the revision that shows it.
  [[nodiscard]] virtual uint64_t Publish(const ClusterState& state, const StepResult& step) = 0;
  //   now: the turn's, the clock of every deadline in `command`.
  virtual void Send(const Command& command, const ClusterState& state, Instant now) = 0;
  // Why each waiting job waits, where the turn decided. Last, as nobody waits for it.
  virtual void Explain(Explanations explanations) = 0;
};

// Returns when time alone would change the decision (`now` where it did not decide), or the error
// of the commit: then nobody was answered and nothing was sent.
//   now: loop time; never before that of the turn before.
[[nodiscard]] Result<Instant> RunTurn(ClusterState& state,
                                      const Policy& policy,
                                      Instant now,
                                      const std::deque<Request>& batch,
                                      TurnHost& host,
                                      Deciding deciding = Deciding::kNow);

}  // namespace tide
