#include "scheduler/core/policy/placement.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tide {
namespace {

// Usable nodes as the fabric groups them; std::map so that nothing depends on hash order.
using Leaves = std::map<std::string, std::vector<NodeId>>;
using Zones = std::map<std::string, Leaves>;

uint32_t CountNodes(const Leaves& leaves) {
  size_t count = 0;
  for (const auto& [name, nodes] : leaves) {
    count += nodes.size();
  }
  return static_cast<uint32_t>(count);
}

Zones GroupByFabric(const ClusterState& state,
                    const PlacementRequest& request,
                    const std::vector<NodeId>& usable) {
  Zones zones;
  for (const NodeId id : usable) {
    const NodeIdentity& identity = state.nodes[id.value()].identity;
    const bool named_zone = request.zone != "single" && request.zone != "cross-ok";
    if (identity.group != request.group || identity.capacity.gpus < request.gpus_per_node ||
        (named_zone && identity.zone != request.zone)) {
      continue;
    }
    zones[identity.zone][identity.leaf].push_back(id);
  }
  const std::set<NodeId> former(request.former.begin(), request.former.end());
  for (auto& [zone, leaves] : zones) {
    for (auto& [leaf, nodes] : leaves) {
      std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
        return std::pair(!former.contains(a), a) < std::pair(!former.contains(b), b);
      });
    }
  }
  return zones;
}

size_t CountFormer(const std::vector<NodeId>& nodes, const std::vector<NodeId>& former) {
  return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [&](NodeId id) {
    return std::find(former.begin(), former.end(), id) != former.end();
  }));
}

// Takes `wanted` nodes of one zone from the fewest leaves: the fullest leaves whole while more is
// wanted than any leaf holds, then the smallest leaf that holds the rest.
std::vector<NodeId> TakeFromZone(Leaves leaves,
                                 uint32_t wanted,
                                 const std::vector<NodeId>& former) {
  std::vector<std::pair<std::string, std::vector<NodeId>>> taken;
  while (wanted > 0) {
    auto best = leaves.end();
    for (auto it = leaves.begin(); it != leaves.end(); ++it) {
      if (best == leaves.end()) {
        best = it;
        continue;
      }
      const bool fits = it->second.size() >= wanted;
      const bool best_fits = best->second.size() >= wanted;
      const size_t size = it->second.size();
      const size_t best_size = best->second.size();
      const bool better_size = fits ? size < best_size : size > best_size;
      const bool tie = fits == best_fits && size == best_size &&
                       CountFormer(it->second, former) > CountFormer(best->second, former);
      if ((fits && !best_fits) || (fits == best_fits && better_size) || tie) {
        best = it;
      }
    }
    const size_t count = std::min<size_t>(wanted, best->second.size());
    best->second.resize(count);
    wanted -= static_cast<uint32_t>(count);
    taken.emplace_back(best->first, std::move(best->second));
    leaves.erase(best);
  }
  std::sort(taken.begin(), taken.end());  // ranks leaf by leaf
  std::vector<NodeId> nodes;
  for (auto& [leaf, ids] : taken) {
    std::sort(ids.begin(), ids.end());
    nodes.insert(nodes.end(), ids.begin(), ids.end());
  }
  return nodes;
}

// The zone where the gang leaves the fewest nodes behind; ties: more former nodes, then name.
const Leaves* BestZone(const Zones& zones, const PlacementRequest& request) {
  const Leaves* best = nullptr;
  std::pair<uint32_t, size_t> best_key;
  for (const auto& [name, leaves] : zones) {
    const uint32_t count = CountNodes(leaves);
    if (count < request.nodes) {
      continue;
    }
    size_t former = 0;
    for (const auto& [leaf, nodes] : leaves) {
      former += CountFormer(nodes, request.former);
    }
    const std::pair<uint32_t, size_t> key(count, request.former.size() - former);
    if (best == nullptr || key < best_key) {
      best = &leaves;
      best_key = key;
    }
  }
  return best;
}

// Splits over the two zones with most usable nodes; empty when they do not hold it.
std::vector<NodeId> TakeAcross(const Zones& zones, const PlacementRequest& request) {
  std::vector<std::pair<uint32_t, std::string>> by_size;
  for (const auto& [name, leaves] : zones) {
    by_size.emplace_back(CountNodes(leaves), name);
  }
  std::sort(by_size.begin(), by_size.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (by_size.size() < 2 || by_size[0].first + by_size[1].first < request.nodes) {
    return {};
  }
  std::vector<NodeId> nodes = TakeFromZone(
      zones.at(by_size[0].second), std::min(by_size[0].first, request.nodes), request.former);
  const auto rest = static_cast<uint32_t>(request.nodes - nodes.size());
  const std::vector<NodeId> second =
      TakeFromZone(zones.at(by_size[1].second), rest, request.former);
  nodes.insert(nodes.end(), second.begin(), second.end());
  return nodes;
}

}  // namespace

PlacementResult Place(const ClusterState& state,
                      const PlacementRequest& request,
                      const std::vector<NodeId>& usable) {
  const Zones zones = GroupByFabric(state, request, usable);
  PlacementResult result;
  if (const Leaves* zone = BestZone(zones, request)) {
    result.nodes = TakeFromZone(*zone, request.nodes, request.former);
    return result;
  }
  for (const auto& [name, leaves] : zones) {
    result.unplaced.free_by_zone[name] = CountNodes(leaves);
  }
  std::vector<NodeId> across = TakeAcross(zones, request);
  if (across.empty()) {
    return result;
  }
  if (request.zone != "cross-ok") {
    result.unplaced.cross_zone_would_fit = request.zone == "single" && request.cross_zone_free;
  } else if (!request.cross_zone_free) {
    result.unplaced.cross_zone_busy = true;
  } else {
    result.nodes = std::move(across);
  }
  return result;
}

bool CrossesZones(const ClusterState& state, const std::vector<NodeId>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return state.nodes[id.value()].identity.zone !=
           state.nodes[nodes.front().value()].identity.zone;
  });
}

}  // namespace tide
