#pragma once
// The running jobs as seen by those that wait: which may be asked to leave, and in which order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

// How a job and its owner stand where others of its class want the same nodes.
struct Footing {
  int64_t slowdown = 0;  // Slowdown::At
  int64_t holds = 0;     // Runners::HoldsOf its owner
};

inline constexpr uint32_t kNoGroup = UINT32_MAX;  // one in which nothing has run yet

// Jobs that share turns: those of a class, in a group.
struct Holding {
  uint32_t owner = 0;    // of ClusterState::owners
  uint32_t group = 0;    // of ClusterState::groups
  int32_t priority = 0;  // the class they stand in now
  auto operator<=>(const Holding&) const = default;
};
// Returns those that a job is one of.
//   priority: the class it stands in now.
[[nodiscard]] Holding HoldingOf(const ClusterState& state, const Job& job, int32_t priority);

struct Runner {
  const LiveJob* job = nullptr;
  int32_t priority = 0;  // the class it stands in now
  Standing standing = Standing::kNoRow;
  int64_t least = 0;               // LeastFor it
  const int64_t* holds = nullptr;  // Runners::HoldsOf its owner
  int64_t use = 0;                 // of its owner, lately
  int64_t loss = 0;                // GPU-milliseconds lost when it leaves now
  int64_t loss_per_gpu = 0;
  Instant safe_until;       // end of its slice; holds but for what was lent to it
  Instant demoted_at;       // when it sinks to a lower class; Never = it does not
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

// Returns the slowdown at which a job takes its turn from another: so many times that one's, and
// more for the work that one would lose.
//   slowdown: Slowdown::At of the running one.   unsaved: LiveJob::UnsavedAt.
[[nodiscard]] int64_t LeastFor(int64_t slowdown, Duration unsaved, const Policy& policy);

// Returns how much waiting must have slowed a job down before it is its turn. The more its owner
// has already, the more that takes.
//   own: what its owner holds.   least: LeastFor the running job.   holds: what that one's holds.
[[nodiscard]] int64_t SlowdownForTurn(int64_t own, int64_t least, int64_t holds);
[[nodiscard]] inline bool IsItsTurn(const Footing& waiting, int64_t least, int64_t holds) {
  return waiting.slowdown >= SlowdownForTurn(waiting.holds, least, holds);
}

// Reports whether a runner's nodes are guaranteed to it, which are not lent out again.
//   standing: of a job that waits for them.
[[nodiscard]] inline bool IsGuaranteed(const Runner& runner, Standing standing) {
  return standing == Standing::kBorrows && runner.standing == Standing::kWithin;
}

// By which rule a waiting job may have the nodes of a running one.
enum class Right : uint8_t {
  kNone,
  kClass,   // a higher one
  kBefore,  // it waited already when the other started on fewer nodes, and was slowed down more
  kQuota,   // it is within its own
  kTurn,    // it was slowed down more, and the other has had its slice
};

// Returns the first rule that gives it them.
//   now: also of its footing and of what the runner has of slowdowns.
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
  // Calls `visit` in that order with each whose nodes may come to the waiting job, and with some
  // that may not.   Cost: O(runners), a word of each, and of the visits.
  template <typename Visit>
  void EachInReach(const Contender& waiting, const Visit& visit) const {
    for (size_t i = 0; i < runners_.size(); ++i) {
      if (given_from_[i] <= waiting.footing.slowdown || runners_[i].priority < waiting.priority) {
        visit(runners_[i]);
      }
    }
  }
  // Pointers rise in the same order. nullptr: it does not run.
  [[nodiscard]] const Runner* Find(JobId job) const;

  [[nodiscard]] Right RightTo(const Contender& waiting, const Runner& runner) const {
    return tide::RightTo(waiting, runner, policy_, now_);
  }
  [[nodiscard]] bool MayTake(const Contender& waiting, const Runner& runner) const {
    return RightTo(waiting, runner) != Right::kNone;
  }
  Runners(const Runners&) = delete;  // it points into itself
  Runners& operator=(const Runners&) = delete;

  // Reports whether nodes of any may come to it: of what leaves, or by a right. False positives are
  // few, false negatives none. Cost: O(classes × groups).
  [[nodiscard]] bool MayTakeAny(const Contender& waiting) const;
  // Returns those of a user, in no particular order. Cost: O(live log live) once, then O(log live).
  [[nodiscard]] std::span<const Runner* const> OfUser(uint32_t user) const;
  // Returns what such jobs of the owner have that are not leaving, and claim, with what was given
  // to them since. GPU-billionths, over the weights of its project and of all above it.
  [[nodiscard]] int64_t HoldsOf(const Holding& holding) const;
  // Counts so many GPUs more for such jobs from now on.
  void Give(const Holding& holding, int64_t gpus);
  // When time alone next changes an answer of MayTake for a job of this class.
  [[nodiscard]] Instant NextChange(int32_t priority) const;
  // When time alone next changes the class of a runner.
  [[nodiscard]] Instant NextDemotion() const { return next_demotion_; }

 private:
  // Runners of a class in a group, as far as it takes to see that a job may have none of them.
  struct Crowd {
    uint32_t group = 0;
    int32_t priority = 0;
    bool leaves = false;                   // one of them does; what follows is of the others
    bool stays = false;                    // there are others
    int64_t least = INT64_MAX;             // lowest Runner::least
    int64_t least_shared = INT64_MAX;      // lowest past its slice
    int64_t gpus = INT64_MAX;              // fewest
    Instant reclaimed = Instant::Never();  // first Runner::reclaimed_until
  };
  void AddToCrowd(const Runner& runner);

  const Policy& policy_;
  const Shares& shares_;
  const Names& groups_;
  Instant now_;
  std::vector<Crowd> crowds_;
  Instant next_demotion_ = Instant::Never();
  std::vector<Runner> runners_;
  std::vector<int64_t> given_from_;  // lowest slowdown at which one of its class may have its nodes
  // GPUs that an owner holds in one class and group, as HoldsOf has them. Asked for each owner that
  // waits: in a tree of them each level would be waited for.
  struct Held {
    Holding holding;
    int64_t amount = 0;
    uint32_t next = 0;  // of the same owner, in held_
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // Returns its place in held_; kNone: it holds nothing.
  [[nodiscard]] uint32_t FindHeld(const Holding& holding) const;
  [[nodiscard]] int64_t& HeldOf(const Holding& holding);

  std::deque<Held> held_;                         // places in it stay
  std::vector<uint32_t> first_held_;              // in held_, by owner
  std::vector<std::pair<JobId, size_t>> by_job_;  // ascending
  mutable std::vector<const Runner*> by_user_;    // ascending by user; empty = not sorted yet
};

}  // namespace tide
