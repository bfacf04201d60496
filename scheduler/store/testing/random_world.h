#pragma once
// A small cluster to which random, mostly legal things happen: joins, submissions, task reports,
// faults, drains, validations, losses.

#include <vector>

#include "common/base/prng.h"
#include "scheduler/core/step.h"

namespace tide::testing {

class RandomWorld {
 public:
  // state: where to go on from, for example a loaded one.
  RandomWorld(uint64_t seed, ClusterState state, const Policy& policy = {})
      : prng_(seed), state_(std::move(state)), policy_(policy) {}

  // One turn with one to three random events; time moves on.
  StepResult Turn();

  [[nodiscard]] const ClusterState& state() const { return state_; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  EventBody RandomEvent();
  EventBody AnyEvent();
  EventBody Submission();
  EventBody TaskReport();
  EventBody Fault();
  EventBody ValidationEnd();
  EventBody JobOrder();
  EventBody NodeOrder();
  [[nodiscard]] NodeId RandomNode();
  [[nodiscard]] JobId RandomJob();

  Prng prng_;
  ClusterState state_;
  Policy policy_;
  Instant now_ = Instant::FromUnixNanos(1'750'000'000'000'000'000);
};

// Builders shared with the other tests.
[[nodiscard]] NodeJoined Join(uint32_t node);
[[nodiscard]] JobSubmitted Submit(uint64_t job, uint32_t nodes, int32_t priority);

}  // namespace tide::testing
