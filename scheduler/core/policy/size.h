#pragma once
// How large a gang may be: by its group, its zone rule and the nodes that count.

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/spec/zone_rule.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/free_nodes.h"

namespace tide {

// Adds up the `most` largest.
[[nodiscard]] uint32_t SumOfLargest(std::vector<uint32_t> counts, uint32_t most);

// Returns the largest gang when NODES(zone index) nodes count in each zone of a group: those of the
// zone that the rule names, or of as many of the largest zones as the job may lie in.
//   Cost: one call for each zone.
template <typename Nodes>
[[nodiscard]] uint32_t LargestGang(const Fabric& fabric,
                                   const FabricGroup& group,
                                   std::string_view rule,
                                   const Nodes& nodes) {
  const bool named = IsNamedZone(rule);
  const uint32_t zones_max = ZonesMax(rule);
  const bool some = zones_max > 1 && zones_max < group.zone_count;
  uint32_t most = 0;
  uint32_t all = 0;
  std::vector<uint32_t> counts;  // where some of the zones are to be chosen
  for (uint32_t zone = group.first_zone; zone < group.first_zone + group.zone_count; ++zone) {
    if (!named || fabric.zones[zone].name == rule) {
      const uint32_t count = nodes(zone);
      most = std::max(most, count);
      all += count;
      if (some) {
        counts.push_back(count);
      }
    }
  }
  return zones_max <= 1 ? most : some ? SumOfLargest(std::move(counts), zones_max) : all;
}

// Says whether a zone of the job's group has as many nodes as it wants, whoever runs there.
//   Cost: O(zones of the group).
[[nodiscard]] bool OneZoneHolds(const Fabric& fabric, const JobSpec& spec);

// Counts nodes of a zone that can hold what the job wants on each.
//   Cost: O(1) where all nodes of the group have them, else O(nodes of the zone).
[[nodiscard]] uint32_t CountLargeEnough(const ClusterState& state,
                                        const FabricZone& zone,
                                        const JobSpec& spec);

// Counts those of them that are free, in the zone of this index.
//   Cost: as above.
[[nodiscard]] uint32_t CountFreeLargeEnough(const ClusterState& state,
                                            uint32_t zone,
                                            const JobSpec& spec,
                                            const FreeNodes& free);

// Returns the largest gang of such nodes that its group and zone rule could hold, were all nodes in
// service and idle. 0: the group is unknown.
//   Cost: that of CountLargeEnough for each zone.
[[nodiscard]] uint32_t LargestGangEver(const ClusterState& state, const JobSpec& spec);

}  // namespace tide
