#pragma once
// The running jobs as seen by those that wait: which may be asked to leave, and in which order.

#include <string>
#include <vector>

#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

struct Runner {
  const LiveJob* job = nullptr;
  int32_t priority = 0;  // the class it stands in now
  Standing standing = Standing::kNoRow;
  int64_t use = 0;     // of its owner, lately
  int64_t weight = 1;  // of its project and all above it
  int64_t loss = 0;    // GPU-milliseconds lost when it leaves now
  int64_t loss_per_gpu = 0;
  Instant safe_until;  // from other owners of its class
  // For as long as it had waited itself it keeps what it got, at most for the lead: else it would
  // have waited for nothing. Holds against jobs of its class, but for those after a fault.
  Instant earned_until;
  Duration patience;  // of a job of its class that waits for its turn
  // From a job of its class that it overtook and that has waited long enough; Never = it overtook
  // none.
  Instant overtaken_until;
  Instant reclaimed_until;  // from a job of its class within its quota; Never = it borrows nothing
};

// A waiting job as runners see it.
struct Contender {
  const Job* job = nullptr;
  uint32_t owner = 0;    // of ClusterState::owners
  uint32_t user = 0;     // of the owner
  int32_t priority = 0;  // the class it stands in now
  Standing standing = Standing::kNoRow;
  int64_t use = 0;  // of its owner, lately
};

// How long a suspension of the job takes it from its work: measured if it was suspended before.
[[nodiscard]] Duration CostOfSuspension(const Job& job, const Policy& policy);
[[nodiscard]] Duration CostOfSuspension(const LiveJob& job, const Policy& policy);
// How long it runs before others of its class may take its nodes: sharing costs it at most one part
// in `preemption_tax`.
//   cost: of a suspension.
[[nodiscard]] Duration SliceOf(Duration cost, const Policy& policy);
// Says whether a job that waits since then has waited so long that what comes free is kept for it.
[[nodiscard]] bool IsReservedFor(Instant since, const Policy& policy, Instant now);
// For how long a job keeps what it has waited so long for.
[[nodiscard]] Duration EarnedBy(Duration waited, const Policy& policy);

// Has an owner used so much less than another that it may take as many GPUs from it?
//   use, other: GPU-milliseconds over weights.   weight: that of the other.
[[nodiscard]] bool IsFarBelow(
    int64_t use, int64_t other, int64_t weight, int64_t gpus, const Policy& policy);

// By which rule a waiting job may have the nodes of a running one.
enum class Right : uint8_t {
  kNone,
  kClass,      // a higher one
  kReserved,   // they came free while it waited for more, long enough
  kOvertaken,  // it was before it, and has waited long enough
  kQuota,      // it is within its own
  kTurn,       // its owner used much less
};

// Uses are those of `now`.
//   use: of the runner's owner.
[[nodiscard]] Right RightTo(
    const Contender& waiting, const Runner& runner, int64_t use, const Policy& policy, Instant now);
[[nodiscard]] inline Right RightTo(const Contender& waiting,
                                   const Runner& runner,
                                   const Policy& policy,
                                   Instant now) {
  return RightTo(waiting, runner, runner.use, policy, now);
}
[[nodiscard]] inline bool MayTake(const Contender& waiting,
                                  const Runner& runner,
                                  const Policy& policy,
                                  Instant now) {
  return RightTo(waiting, runner, policy, now) != Right::kNone;
}

// Says to whom a running job gives its nodes, and by which right where it may ask why.
[[nodiscard]] std::string WhyItLeaves(const Contender& waiting, Right right);

// How long a job waits before so many others leave for its turn.
[[nodiscard]] Duration PatienceFor(size_t victims, const Policy& policy);

class Runners {
 public:
  // Cost: O(live log live), a few words each. `state` must outlive it, unchanged.
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
  // When time alone next changes an answer of MayTake for a job of this class.
  [[nodiscard]] Instant NextChange(int32_t priority) const;
  // When time alone next changes the class of a runner.
  [[nodiscard]] Instant NextDemotion() const { return next_demotion_; }

 private:
  const Policy& policy_;
  Instant now_;
  Instant next_demotion_ = Instant::Never();
  std::vector<Runner> runners_;
  std::vector<std::pair<JobId, size_t>> by_job_;  // ascending
};

}  // namespace tide
