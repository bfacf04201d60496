#pragma once
// The running jobs as seen by those that wait: which may be asked to leave, and in which order.

#include <string>
#include <vector>

#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

// How a job and its owner stand where others of its class want the same nodes.
struct Footing {
  int64_t slowdown = 0;  // Slowdown::At
  int64_t holds = 0;     // GPUs that its owner's jobs have or claim, in thousandths, over weights
};

struct Runner {
  const LiveJob* job = nullptr;
  int32_t priority = 0;  // the class it stands in now
  Standing standing = Standing::kNoRow;
  int64_t slowdown = 0;            // Slowdown::At
  Duration unsaved;                // LiveJob::UnsavedAt
  const int64_t* holds = nullptr;  // Runners::HoldsOf its owner
  int64_t use = 0;                 // of its owner, lately
  int64_t loss = 0;                // GPU-milliseconds lost when it leaves now
  int64_t loss_per_gpu = 0;
  Instant safe_until;       // from those of its class who came after it had started
  Instant reclaimed_until;  // from a job of its class within its quota; Never = it borrows nothing
};

// A waiting job as runners see it.
struct Contender {
  const Job* job = nullptr;
  uint32_t owner = 0;    // of ClusterState::owners
  uint32_t user = 0;     // of the owner
  int32_t priority = 0;  // the class it stands in now
  Standing standing = Standing::kNoRow;
  Footing footing;
};

// How long a suspension of the job takes it from its work: measured if it was suspended before.
[[nodiscard]] Duration CostOfSuspension(const Job& job, const Policy& policy);
[[nodiscard]] Duration CostOfSuspension(const LiveJob& job, const Policy& policy);
// How long it runs before others of its class may take its nodes: sharing costs it at most one part
// in `preemption_tax`.
//   cost: of a suspension.
[[nodiscard]] Duration SliceOf(Duration cost, const Policy& policy);
// Returns when a job that waits since then asks others of its class to leave.
[[nodiscard]] inline Instant AsksFrom(Instant since, const Policy& policy) {
  return since + policy.minimum_run;
}

// Has a job been slowed down so much more than another that it is its turn? The more its owner
// has already, the more it takes; and the more work the other would lose.
//   unsaved: by the running one.
[[nodiscard]] bool IsItsTurn(const Footing& waiting,
                             const Footing& running,
                             Duration unsaved,
                             const Policy& policy);

// By which rule a waiting job may have the nodes of a running one.
enum class Right : uint8_t {
  kNone,
  kClass,   // a higher one
  kBefore,  // it waited already when the other started, and was slowed down more
  kQuota,   // it is within its own
  kTurn,    // it was slowed down more, and the other has had its slice
};

// Footings are those of `now`.
[[nodiscard]] Right RightTo(const Contender& waiting,
                            const Runner& runner,
                            const Policy& policy,
                            Instant now);

// Says to whom a running job gives its nodes, and by which right where it may ask why.
[[nodiscard]] std::string WhyItLeaves(const Contender& waiting, Right right);

class Runners {
 public:
  // Cost: O(live log live), a few words each. `state` and `shares` must outlive it, unchanged.
  Runners(const ClusterState& state,
          const Policy& policy,
          const Shares& shares,
          const Quotas& quotas,
          Instant now);

  // Cheapest victims first: lowest class, over its quota, borrowing, least lost for a GPU, owner
  // that used most, latest start.
  [[nodiscard]] const std::vector<Runner>& all() const { return runners_; }
  // Pointers rise in the same order. nullptr: it does not run.
  [[nodiscard]] const Runner* Find(JobId job) const;

  [[nodiscard]] Right RightTo(const Contender& waiting, const Runner& runner) const {
    return tide::RightTo(waiting, runner, policy_, now_);
  }
  [[nodiscard]] bool MayTake(const Contender& waiting, const Runner& runner) const {
    return RightTo(waiting, runner) != Right::kNone;
  }
  // What the owner's jobs have that are not leaving, and claim, with what was given to it since. As
  // Footing has it.
  [[nodiscard]] int64_t HoldsOf(uint32_t owner) const { return holds_[owner]; }
  // From now on the owner's jobs have so many GPUs more.
  void Give(uint32_t owner, int64_t gpus);
  // When time alone next changes an answer of MayTake for a job of this class.
  [[nodiscard]] Instant NextChange(int32_t priority) const;
  // When time alone next changes the class of a runner.
  [[nodiscard]] Instant NextDemotion() const { return next_demotion_; }

 private:
  const Policy& policy_;
  const Shares& shares_;
  Instant now_;
  Instant next_demotion_ = Instant::Never();
  std::vector<Runner> runners_;
  std::vector<int64_t> gpus_;                     // by owner
  std::vector<int64_t> holds_;                    // by owner
  std::vector<std::pair<JobId, size_t>> by_job_;  // ascending
};

}  // namespace tide
