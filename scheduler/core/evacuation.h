#pragma once
// Jobs that leave nodes which people want out of service.

#include <set>

#include "scheduler/core/decide.h"

namespace tide {

// Asks what runs on a node that an operator drains to save and go on elsewhere, once its time to
// leave has come; a fault's drain waits for its end (docs/guide/faults.md).
//   asked: those that are asked to leave in this pass; the others are added.
void EvacuateDrainingNodes(const ClusterState& state,
                           const Policy& policy,
                           Instant now,
                           std::set<JobId>& asked,
                           Decision& decision);

}  // namespace tide
