#pragma once
// The one thread that owns the cluster's state: drain requests → stamp the time → Step → commit →
// only then publish, answer and send. A failed commit ends the process: memory never runs ahead of
// the log, and the next scheduler loads what was committed.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "scheduler/core/step.h"
#include "scheduler/server/liveness.h"
#include "scheduler/server/loop_clock.h"
#include "scheduler/server/sessions.h"
#include "scheduler/server/view.h"
#include "scheduler/store/store.h"

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
  [[nodiscard]] JobId NextJob() { return JobId(state_.next_job_id + jobs_given_++); }
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
  // Runs on the loop thread, before the events of its batch are applied.
  std::function<Result<std::vector<EventBody>>(BatchContext&, Reply&)> make;
  // Runs on the loop thread after the commit; must not block.
  std::function<void(const Reply&)> done;
};

class Loop {
 public:
  Loop(std::unique_ptr<Store> store,
       ClusterState state,
       Policy policy,
       LivenessPolicy liveness,
       ViewHub& view,
       SessionRegistry& sessions);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Start();
  // Works off what is queued, then gives leadership up.
  void Stop();
  // False when the queue is full: the caller tells its client to come back.
  [[nodiscard]] bool Enqueue(Request request);

  [[nodiscard]] Term term() const { return term_; }
  [[nodiscard]] const Policy& policy() const { return policy_; }

 private:
  void Run();
  std::deque<Request> TakeBatch();
  void Turn(std::deque<Request> batch);
  void Answer(std::deque<Request>& batch,
              std::vector<Reply>& replies,
              const std::vector<size_t>& owner,
              const StepResult& step);
  Instant Now();

  std::unique_ptr<Store> store_;
  ClusterState state_;
  const Policy policy_;
  Liveness liveness_;
  ViewHub& view_;
  SessionRegistry& sessions_;
  const Term term_;
  LoopClock clock_{SystemNow(), BootNanos()};
  Instant wake_at_ = Instant::Never();

  Mutex mutex_;
  Condition wake_;
  std::deque<Request> queue_ TIDE_GUARDED_BY(mutex_);
  bool stopping_ TIDE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tide
