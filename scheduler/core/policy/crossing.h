#pragma once
// Jobs that lie in several zones, as one pass of decisions leaves them: may one more, and through
// which boundaries (docs/adr/0014)? Claims count like jobs: nobody is asked to leave for a gang
// that may not start then.

#include <map>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/boundary_use.h"
#include "scheduler/core/policy/policy.h"
#include "scheduler/core/policy/quota.h"

namespace tide {

class Crossing {
 public:
  // claims: as the pass leaves them; ClaimsChanged is called when they have changed. All must
  // outlive it.
  Crossing(const ClusterState& state,
           const Policy& policy,
           const Quotas& quotas,
           const std::map<JobId, Claim>& claims);

  // Reports whether fewer jobs cross than may, for a job that would.
  [[nodiscard]] bool MayCross(const Job& job) const;
  // Returns what is left of the boundaries for a job; null where they have no limits.
  [[nodiscard]] std::shared_ptr<const BoundaryUse> LeftFor(const Job& job);
  // Reports whether a job may lie on these nodes, as far as crossing goes. nodes: in rank order.
  [[nodiscard]] bool Allows(const Job& job, const std::vector<NodeId>& nodes);
  // Returns one that keeps `job` from crossing: it crosses, or is about to, on a boundary that is
  // full where there is one.
  [[nodiscard]] JobId InTheWayOf(const Job& job);
  // Reports whether boundaries have limits.
  [[nodiscard]] bool IsBounded() const { return !policy_.boundaries.empty(); }

  // Counts a job that the pass starts. nodes: in rank order.
  void Start(const std::vector<NodeId>& nodes);
  void ClaimsChanged() { left_.clear(); }

 private:
  [[nodiscard]] bool Crosses(const std::vector<NodeId>& nodes) const {
    return nodes.size() > 1 && state_.fabric.Crosses(nodes);
  }
  [[nodiscard]] bool Counts(JobId claimant, const Claim& claim, const Job& job) const;
  [[nodiscard]] std::shared_ptr<const BoundaryUse> CountFor(const Job& job) const;

  const ClusterState& state_;
  const Policy& policy_;
  const Quotas& quotas_;
  const std::map<JobId, Claim>& claims_;
  std::vector<std::vector<NodeId>> started_;                    // nodes of jobs, by this pass
  std::map<int32_t, std::shared_ptr<const BoundaryUse>> left_;  // by class, without own claims
};

// Returns the largest gang up to the size of `spec` that its group can ever have by its zone rule:
// all nodes idle, nobody else to cross, on what `boundaries` allow.
//   boundaries: unused.
//   Cost: O(nodes) and some searches for chains.
[[nodiscard]] uint32_t LargestGangAcross(const ClusterState& state,
                                         const JobSpec& spec,
                                         const BoundaryUse& boundaries);

// Checks a gang that no single zone can hold against the limits of the boundaries.
//   Errors: kNeverFits, with a size that can be had.
[[nodiscard]] Status CheckEverCrosses(ClusterState& state,
                                      const Policy& policy,
                                      const JobSpec& spec);

}  // namespace tide
