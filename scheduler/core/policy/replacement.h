#pragma once
// After a fault only what is broken is replaced (scheduling.md section 4): the gang goes on where
// it was, rank by rank, and takes as many other nodes as it lost.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/policy/order.h"
#include "scheduler/core/policy/placement.h"

namespace tide {

// A gang that a fault stops, or a failure that a fault may yet explain: it will go on at once, so
// its nodes are kept for it while its tasks leave them one by one. Not those of a gang that was
// leaving for another job, or that has no restart left.
//   Cost: O(1) for most jobs, O(tasks) for one that stops.
[[nodiscard]] bool KeepsNodes(const Job& job);

// The nodes of all such gangs, but for what somebody had claimed already.
class KeptNodes {
 public:
  //   Cost: O(jobs that leave or start), and the nodes that are kept.
  explicit KeptNodes(const ClusterState& state);

  [[nodiscard]] const std::map<JobId, std::vector<NodeId>>& all() const { return nodes_; }
  // Job 0: it is kept for nobody.
  [[nodiscard]] JobId KeeperOf(NodeId node) const {
    return keepers_.empty() ? JobId() : keepers_[node.value()];
  }

 private:
  std::map<JobId, std::vector<NodeId>> nodes_;
  std::vector<JobId> keepers_;  // by node; empty: of none
};

// Does it wait because a fault ended its last attempt? Such a job comes before all others of its
// class: it takes up a place that it had.
[[nodiscard]] bool GoesOnAfterFault(const Job& job);

// Those of the waiting jobs of one class, owner by owner.
class AfterFault {
 public:
  //   Cost: O(owners), and the waiting jobs of those who have some.
  explicit AfterFault(const std::vector<OwnerJobs>& owners);

  [[nodiscard]] const std::vector<OwnerJobs>& owners() const { return owners_; }

 private:
  std::vector<OwnerJobs> owners_;
  std::deque<OwnerJobs::Singles> jobs_;
};

// Asks for the nodes that the job had, and for what PlaceAfterFault needs of one that a fault
// ended.
void AskForFormer(const ClusterState& state, const Job& job, PlacementRequest& request);

// As Place; but where the request says so, each former node that is free keeps its task. For the
// others a free node is taken in the same leaf, else in the same zone, from leaves that the gang
// has already, else from the fewest. Suspects are kept only when nothing else is free there.
// The gang is placed anew when less than half of its nodes are left, and in one zone rather than
// replaced across several; the rule of its zone and the limit of jobs across zones hold as ever.
//   Cost: O(nodes of the gang + leaves of its zones × lost nodes), and that of Place.
[[nodiscard]] PlacementResult PlaceAfterFault(const FreeNodes& free,
                                              const PlacementRequest& request);

// The one zone in which the gang was: a lower class is asked for nodes there first.
[[nodiscard]] std::optional<std::string> ZoneOfReplacement(const Fabric& fabric,
                                                           const PlacementRequest& request);

}  // namespace tide
