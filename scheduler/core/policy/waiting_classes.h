#pragma once
// Who waits in which class now. Nearly all stand in the class they asked for, bucket by bucket as
// the state keeps them; those that are demoted, and `auto` jobs, are looked at one by one.

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

class WaitingClasses {
 public:
  // Owners by their number. Highest class first.
  using Classes = std::map<int32_t, std::vector<OwnerJobs>, std::greater<>>;

  // Cost: O(owners log owners + jobs of classes where some may stand elsewhere).
  WaitingClasses(const ClusterState& state,
                 const Policy& policy,
                 const Shares& shares,
                 const Quotas& quotas);

  [[nodiscard]] const Classes& all() const { return classes_; }

 private:
  // Those that may stand elsewhere than where they asked to, owner by owner.
  using Moved = std::map<WaitingJobs::Key, OwnerJobs::Singles>;

  void Move(const Quotas& quotas, uint32_t owner, WaitingJob job, const Job& opened);
  // Adds an owner's jobs; owners come in order.
  //   all: also those that have run.
  void Add(const WaitingJobs::Key& key, const OwnerQueue& queue, bool all);
  void MergeIn(const WaitingJobs::Key& key, const OwnerJobs::Singles& jobs);

  const Policy& policy_;
  const Shares& shares_;
  Classes classes_;
  Moved moved_;
  std::deque<OwnerJobs::Singles> merged_;  // of owners with jobs of both kinds in a class
};

}  // namespace tide
