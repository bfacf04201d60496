#pragma once
// What a group could ever hold, were all its nodes in service and idle.

#include <string_view>

#include "scheduler/core/model/state.h"

namespace tide {

// A zone rule names a zone, rather than "single" or "cross-ok".
[[nodiscard]] bool IsNamedZone(std::string_view rule);

// Nodes of a zone with as many GPUs as the job wants on each.
//   Cost: O(1) where all nodes of the group have them, else O(nodes of the zone).
[[nodiscard]] uint32_t CountLargeEnough(const ClusterState& state,
                                        const FabricZone& zone,
                                        const JobSpec& spec);

// The largest gang of such nodes that its group and zone rule could hold. 0: the group is unknown.
//   Cost: that of CountLargeEnough for each zone.
[[nodiscard]] uint32_t LargestGangEver(const ClusterState& state, const JobSpec& spec);

}  // namespace tide
