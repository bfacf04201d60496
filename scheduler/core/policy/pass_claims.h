#pragma once
// Nodes that jobs claim while one pass decides: claims of the state, without those that the pass
// drops, and with those that it makes.

#include <map>
#include <vector>

#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

class PassClaims {
 public:
  // Reads the claims of `state`, which must outlive it unchanged. Cost: O(claimed nodes).
  PassClaims(const ClusterState& state, const Quotas& quotas);

  [[nodiscard]] const std::map<JobId, Claim>& all() const { return claims_; }
  [[nodiscard]] bool Has(JobId job) const { return claims_.contains(job); }
  [[nodiscard]] const Claim& At(JobId job) const { return claims_.at(job); }
  // Returns the jobs that claim the node, in no particular order.
  [[nodiscard]] std::vector<JobId> ClaimantsOf(NodeId node) const;
  // Reports whether others of that class or a higher one claim the node. Cost: O(1) where none
  // does.
  [[nodiscard]] bool IsKeptFrom(JobId job, int32_t priority, NodeId node) const {
    const Highest& highest = highest_[node.value()];
    return highest.priority >= priority &&
           (highest.claimant != job || IsClaimedByOthers(job, priority, node));
  }

  void Make(const Job& job, const Claim& claim);
  // Returns whether there was one.
  bool Erase(JobId job);

 private:
  struct Highest {
    int32_t priority = INT32_MIN;
    JobId claimant;
  };

  [[nodiscard]] bool IsClaimedByOthers(JobId job, int32_t priority, NodeId node) const;
  [[nodiscard]] int32_t ClassOf(JobId job) const { return quotas_.ClassOf(state_.jobs.at(job)); }
  void Raise(JobId claimant, NodeId node);

  const ClusterState& state_;
  const Quotas& quotas_;
  std::map<JobId, Claim> claims_;
  std::map<NodeId, JobId> made_;  // claimants that the pass has added
  std::vector<Highest> highest_;  // claimant of the highest class; by node
};

}  // namespace tide
