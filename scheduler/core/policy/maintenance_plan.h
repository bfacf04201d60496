#pragma once
// Nodes whose maintenance is planned, for one pass: which of them a job may not start on, because
// its time limit would run into it. A job without a limit may: it is asked to leave when it begins.

#include <optional>
#include <span>
#include <vector>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/policy/capacity.h"

namespace tide {

class MaintenancePlan {
 public:
  // Cost: O(nodes), a byte each.
  MaintenancePlan(const ClusterState& state, Instant now);

  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  // Returns how many nodes the job may not start on: the first of those whose time comes soonest.
  [[nodiscard]] size_t CountBarred(const Job& job) const;
  // Reports whether the node is one of the first `count`.
  [[nodiscard]] bool IsBarred(NodeId node, size_t count) const {
    return count > 0 && place_[node.value()] < count;
  }
  // Leaves the first `count` out of what is free, and no others.
  void Bar(size_t count, Capacity& capacity) const;

  struct Asker {
    const Job& job;
    const PlacementRequest& request;
    bool is_part = false;  // it does not want whole nodes
  };
  // Corrects what the job is told, from which the first `count` are barred: where it would start
  // without them, that comes in place of what it lacks.
  //   capacity: with these barred, which it is again afterwards.
  void Tell(const Asker& asker,
            size_t count,
            Capacity& capacity,
            std::vector<Reason>& reasons) const;

 private:
  // Returns that the job would start, were it not for the first `count`; nothing: it would not.
  [[nodiscard]] std::optional<Reason> WhyNot(const Asker& asker,
                                             size_t count,
                                             Capacity& capacity) const;

  Instant now_;
  std::vector<NodeId> nodes_;    // what begins first comes first
  std::vector<Instant> begins_;  // of the same
  std::vector<size_t> place_;    // in them, by node; empty: none is planned
};

}  // namespace tide
