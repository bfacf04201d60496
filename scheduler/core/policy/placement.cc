#include "scheduler/core/policy/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "common/base/check.h"
#include "common/spec/zone_rule.h"
#include "scheduler/core/policy/zone_chain.h"

namespace tide {
namespace {

struct LeafTake {
  uint32_t leaf = 0;
  uint64_t nodes = 0;  // mask by slot
};

// What is left of one zone while a gang takes its leaves.
class ZoneTaker {
 public:
  ZoneTaker(const FreeNodes& free, const FreeNodes& preferred, uint32_t zone)
      : fabric_(free.fabric()), preferred_(preferred), first_(fabric_.zones[zone].first_leaf) {
    const uint32_t count = fabric_.zones[zone].leaf_count;
    left_.reserve(count);
    for (uint32_t leaf = first_; leaf < first_ + count; ++leaf) {
      left_.push_back(free.InLeaf(leaf));
      ++leaves_of_[Size(left_.back())];
    }
  }

  // Takes `wanted` nodes from the fewest leaves: the fullest leaves whole while no leaf holds the
  // rest, then the leaf that holds it and is left emptiest. Two leaves that together hold exactly
  // the rest come before that: both are filled then.
  std::vector<NodeId> Take(uint32_t wanted) {
    while (wanted > 0) {
      const uint32_t size = NextSize(wanted);
      const LeafTake take = TakeLeaf(size, std::min(size, wanted));
      wanted -= Size(take.nodes);
      taken_.push_back(take);
    }
    return Nodes();
  }

 private:
  static uint32_t Size(uint64_t mask) { return static_cast<uint32_t>(std::popcount(mask)); }

  // How many free nodes the next leaf should have.
  [[nodiscard]] uint32_t NextSize(uint32_t wanted) const {
    for (uint32_t size = wanted; size <= kLeafNodesMax; ++size) {
      if (leaves_of_[size] > 0) {
        return size;
      }
    }
    uint32_t fullest = std::min(wanted, kLeafNodesMax);
    while (leaves_of_[fullest] == 0) {
      --fullest;
    }
    for (uint32_t one = fullest; 2 * one >= wanted && one > 0; --one) {
      const uint32_t other = wanted - one;
      if (leaves_of_[one] > (one == other ? 1U : 0U) && leaves_of_[other] > 0) {
        return one;
      }
    }
    return fullest;
  }

  // From a leaf with `size` free nodes: the one with most preferred nodes, then the lowest.
  LeafTake TakeLeaf(uint32_t size, uint32_t wanted) {
    std::optional<size_t> best;
    int best_preferred = -1;
    for (size_t i = 0; i < left_.size(); ++i) {
      if (Size(left_[i]) != size) {
        continue;
      }
      const uint32_t leaf = first_ + static_cast<uint32_t>(i);
      const int preferred = std::popcount(left_[i] & preferred_.InLeaf(leaf));
      if (preferred > best_preferred) {
        best = i;
        best_preferred = preferred;
      }
    }
    TIDE_CHECK(best.has_value(), "a leaf is counted under its size");
    const uint32_t leaf = first_ + static_cast<uint32_t>(*best);
    const uint64_t nodes = Pick(left_[*best], preferred_.InLeaf(leaf), wanted);
    --leaves_of_[size];
    left_[*best] = 0;  // a leaf is taken from once
    return {leaf, nodes};
  }

  static uint64_t Pick(uint64_t from, uint64_t preferred, uint32_t wanted) {
    uint64_t picked = 0;
    for (uint64_t rest = from & preferred; rest != 0 && Size(picked) < wanted; rest &= rest - 1) {
      picked |= rest & (~rest + 1);
    }
    for (uint64_t rest = from & ~preferred; rest != 0 && Size(picked) < wanted; rest &= rest - 1) {
      picked |= rest & (~rest + 1);
    }
    return picked;
  }

  // Ranks go leaf by leaf.
  std::vector<NodeId> Nodes() {
    std::sort(taken_.begin(), taken_.end(), [](const LeafTake& a, const LeafTake& b) {
      return a.leaf < b.leaf;
    });
    std::vector<NodeId> nodes;
    for (const LeafTake& take : taken_) {
      for (uint64_t rest = take.nodes; rest != 0; rest &= rest - 1) {
        nodes.push_back(
            fabric_.leaves[take.leaf].nodes[static_cast<size_t>(std::countr_zero(rest))]);
      }
    }
    return nodes;
  }

  const Fabric& fabric_;
  const FreeNodes& preferred_;
  uint32_t first_;
  std::vector<uint64_t> left_;                           // by leaf of the zone
  std::array<uint32_t, kLeafNodesMax + 1> leaves_of_{};  // leaves by free nodes
  std::vector<LeafTake> taken_;
};

// Zones of the group that the request may use, as [first, last).
struct ZoneRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

ZoneRange UsableZones(const Fabric& fabric, const PlacementRequest& request) {
  const int index = fabric.FindGroup(request.group);
  if (index < 0) {
    return {};
  }
  const FabricGroup& group = fabric.groups[static_cast<size_t>(index)];
  ZoneRange range{group.first_zone, group.first_zone + group.zone_count};
  if (IsNamedZone(request.zone)) {
    while (range.first < range.last && fabric.zones[range.first].name != request.zone) {
      ++range.first;
    }
    range.last = std::min(range.last, range.first + 1);
  }
  return range;
}

uint32_t CountInZone(const FreeNodes& nodes, const FreeNodes& within, uint32_t zone) {
  const FabricZone& in = nodes.fabric().zones[zone];
  uint32_t count = 0;
  for (uint32_t leaf = in.first_leaf; leaf < in.first_leaf + in.leaf_count; ++leaf) {
    count += static_cast<uint32_t>(std::popcount(nodes.InLeaf(leaf) & within.InLeaf(leaf)));
  }
  return count;
}

// The zone where the gang leaves the fewest nodes behind; ties: more preferred nodes, then name.
std::optional<uint32_t> BestZone(const FreeNodes& free,
                                 const FreeNodes& preferred,
                                 ZoneRange zones,
                                 uint32_t nodes) {
  std::optional<uint32_t> best;
  for (uint32_t zone = zones.first; zone < zones.last; ++zone) {
    const uint32_t count = free.CountInZone(zone);
    if (count < nodes) {
      continue;
    }
    const uint32_t best_count = best ? free.CountInZone(*best) : 0;
    if (!best || count < best_count ||
        (count == best_count &&
         CountInZone(preferred, free, zone) > CountInZone(preferred, free, *best))) {
      best = zone;
    }
  }
  return best;
}

ChainRequest ChainOf(const PlacementRequest& request, ZoneRange zones, uint32_t zones_max) {
  return {zones.first, zones.last, request.nodes, zones_max, request.boundaries.get()};
}

// Places each part in a zone of its own, one after the other.
std::vector<NodeId> PlaceAcross(const FreeNodes& free,
                                const FreeNodes& preferred,
                                const std::vector<ZonePart>& parts) {
  std::vector<NodeId> nodes;
  for (const ZonePart& part : parts) {
    const std::vector<NodeId> taken = ZoneTaker(free, preferred, part.zone).Take(part.nodes);
    nodes.insert(nodes.end(), taken.begin(), taken.end());
  }
  return nodes;
}

}  // namespace

const std::vector<NodeId>& WarmNodes(const PlacementRequest& request) {
  static const std::vector<NodeId> kNone;
  return request.warm == nullptr ? kNone : request.warm->NodesWith(request.image);
}

namespace {

// The former nodes, or where none of them is free those that have the image.
FreeNodes Preferred(const FreeNodes& free, const PlacementRequest& request) {
  FreeNodes preferred(free.fabric());
  bool any = false;
  for (const NodeId node : request.former) {
    preferred.Add(node);
    any = any || free.Contains(node);
  }
  if (any) {
    return preferred;
  }
  for (const NodeId node : WarmNodes(request)) {
    if (node.value() < free.fabric().slots.size()) {  // else it has joined just now
      preferred.Add(node);
    }
  }
  return preferred;
}

}  // namespace

PlacementResult Place(const FreeNodes& free, const PlacementRequest& request) {
  const ZoneRange zones = UsableZones(free.fabric(), request);
  const FreeNodes preferred = Preferred(free, request);
  PlacementResult result;
  if (const auto zone = BestZone(free, preferred, zones, request.nodes)) {
    result.nodes = ZoneTaker(free, preferred, *zone).Take(request.nodes);
    return result;
  }
  const uint32_t zones_max = ZonesMax(request.zone);
  if (zones_max <= 1) {
    result.cross_zone_would_fit = request.cross_zone_free && !IsNamedZone(request.zone) &&
                                  HasChain(free, ChainOf(request, zones, kAnyZones));
    return result;
  }
  ChainRequest chain = ChainOf(request, zones, zones_max);
  if (request.cross_zone_free) {
    result.nodes = PlaceAcross(free, preferred, ChooseChain(free, chain).parts);
  }
  if (result.nodes.empty() && request.boundaries != nullptr) {
    const BoundaryUse unused = request.boundaries->Unused();
    chain.boundaries = &unused;
    result.cross_zone_busy = HasChain(free, chain);
  } else if (result.nodes.empty()) {
    result.cross_zone_busy = !request.cross_zone_free && HasChain(free, chain);
  }
  return result;
}

bool Fits(const FreeNodes& free, const PlacementRequest& request) {
  const ZoneRange zones = UsableZones(free.fabric(), request);
  for (uint32_t zone = zones.first; zone < zones.last; ++zone) {
    if (free.CountInZone(zone) >= request.nodes) {
      return true;
    }
  }
  const uint32_t zones_max = ZonesMax(request.zone);
  return zones_max > 1 && request.cross_zone_free &&
         HasChain(free, ChainOf(request, zones, zones_max));
}

}  // namespace tide
