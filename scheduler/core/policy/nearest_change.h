#pragma once
// Which change to a waiting gang would start it: how `tide why` ends.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "scheduler/core/policy/capacity.h"
#include "scheduler/core/policy/quota.h"
#include "scheduler/core/policy/runners.h"

namespace tide {

// Nodes that a higher class could have, by zone. Cost: O(live tasks), once in a pass.
class HigherClasses {
 public:
  HigherClasses(const ClusterState& state, const Runners& runners, const Quotas& quotas);

  // The lowest class above `priority` in which the gang would get its nodes: what is idle, and what
  // runs in the classes below that one, whatever its quotas. Nothing: not even the highest would
  // do.
  //   Cost: O(zones × classes), and O(nodes × classes) in a group whose nodes differ.
  [[nodiscard]] std::optional<int32_t> Find(const Job& job,
                                            int32_t priority,
                                            const FreeNodes& idle,
                                            bool may_cross) const;

 private:
  [[nodiscard]] uint32_t CountFor(const JobSpec& spec,
                                  uint32_t zone,
                                  int32_t priority,
                                  const FreeNodes& idle) const;

  const ClusterState& state_;
  const Fabric& fabric_;
  std::vector<std::optional<int32_t>> held_by_;    // by node: the class below which nobody gets it
  std::vector<std::map<int32_t, uint32_t>> held_;  // by zone: that class → nodes
};

// Raises each class that a reason advises to the lowest one from there on in which quotas let the
// job stand; takes the advice away where there is none.
//   row_set: Quotas::RowSetOf its owner.
void KeepOpenClasses(const Quotas& quotas,
                     uint32_t row_set,
                     const Job& job,
                     std::vector<Reason>& reasons);

}  // namespace tide
