#include "scheduler/core/policy/zone_chain.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "common/fabric/comm_plan.h"

namespace tide {
namespace {

// Returns the zones with free nodes, those with most first; of equal ones the lower.
std::vector<uint32_t> ZonesByFree(const FreeNodes& free, const ChainRequest& request) {
  std::vector<uint32_t> zones;
  for (uint32_t zone = request.first_zone; zone < request.last_zone; ++zone) {
    if (free.CountInZone(zone) > 0) {
      zones.push_back(zone);
    }
  }
  std::ranges::stable_sort(
      zones, std::greater(), [&](uint32_t zone) { return free.CountInZone(zone); });
  return zones;
}

// Returns the first that hold the gang together; none where `zones_max` do not.
std::vector<uint32_t> FewestOf(const FreeNodes& free,
                               const ChainRequest& request,
                               std::vector<uint32_t> zones) {
  uint32_t count = 0;
  for (size_t i = 0; i < zones.size() && i < request.zones_max; ++i) {
    count += free.CountInZone(zones[i]);
    if (count >= request.nodes) {
      zones.resize(i + 1);
      return zones;
    }
  }
  return {};
}

// Returns the parts of a gang in these zones; none where it cannot be cut so.
//   pairs: NcclPairsByCut of the gang.   pairs_max: as BestSplit has it.
std::vector<ZonePart> Cut(const FreeNodes& free,
                          const std::vector<uint32_t>& zones,
                          const std::vector<uint32_t>& pairs,
                          const std::vector<uint32_t>& pairs_max) {
  std::vector<uint32_t> most;
  for (const uint32_t zone : zones) {
    most.push_back(free.CountInZone(zone));
  }
  const std::vector<uint32_t> counts = BestSplit(pairs, most, pairs_max);
  std::vector<ZonePart> parts;
  for (size_t i = 0; i < counts.size(); ++i) {
    parts.push_back({zones[i], counts[i]});
  }
  return parts;
}

// Looks for chains of zones that are joined.
class ChainSearch {
 public:
  //   pairs: NcclPairsByCut of the gang.
  ChainSearch(const FreeNodes& free,
              const ChainRequest& request,
              std::vector<uint32_t> zones,
              const std::vector<uint32_t>& pairs)
      : free_(free),
        request_(request),
        zones_(std::move(zones)),
        pairs_(pairs),
        fewest_pairs_(*std::min_element(pairs.begin() + 1, pairs.end() - 1)) {}

  ZoneChain Run(size_t fewest) {
    ZoneChain chain;
    const size_t most = std::min<size_t>(request_.zones_max, zones_.size());
    for (size_t length = fewest; length <= most && chain.parts.empty(); ++length) {
      chain.parts = OfLength(length);
    }
    chain.gave_up = chain.parts.empty() && (steps_ == 0 || cuts_ == 0);
    return chain;
  }

 private:
  // Jobs that pass its boundaries, its free nodes below zero, places of its zones in `zones_`.
  using Found = std::tuple<uint32_t, int64_t, std::vector<uint32_t>>;

  std::vector<ZonePart> OfLength(size_t length) {
    length_ = length;
    found_.clear();
    Extend(0, 0);
    std::ranges::sort(found_);
    for (auto& [jobs, nodes, places] : found_) {
      // The pairs of a chain and of its reverse differ.
      for (int end = 0; end < 2 && cuts_ > 0; ++end, std::ranges::reverse(places)) {
        --cuts_;
        if (std::vector<ZonePart> parts = CutAt(places); !parts.empty()) {
          return parts;
        }
      }
    }
    return {};
  }

  void Extend(uint32_t nodes, uint32_t jobs) {
    if (steps_ == 0) {
      return;
    }
    --steps_;
    if (chain_.size() == length_) {
      // Each chain is found from both its ends: it begins at the one with most free nodes.
      if (nodes >= request_.nodes && chain_.front() < chain_.back()) {
        found_.emplace_back(jobs, -static_cast<int64_t>(nodes), chain_);
      }
      return;
    }
    for (uint32_t place = 0; place < zones_.size(); ++place) {
      if (std::ranges::find(chain_, place) != chain_.end() || !MayHold(nodes, place)) {
        continue;
      }
      uint32_t passing = 0;
      if (!chain_.empty()) {
        const auto* passage = request_.boundaries->Find(zones_[chain_.back()], zones_[place]);
        if (passage == nullptr || passage->PairsLeft() < fewest_pairs_) {
          continue;
        }
        passing = passage->jobs;
      }
      chain_.push_back(place);
      Extend(nodes + free_.CountInZone(zones_[place]), jobs + passing);
      chain_.pop_back();
    }
  }

  // Reports whether the chain may still hold the gang with this zone, the largest ones behind it.
  [[nodiscard]] bool MayHold(uint32_t nodes, uint32_t place) const {
    uint64_t most = uint64_t{nodes} + free_.CountInZone(zones_[place]);
    size_t left = length_ - chain_.size() - 1;
    for (uint32_t i = 0; i < zones_.size() && left > 0 && most < request_.nodes; ++i) {
      if (i != place && std::ranges::find(chain_, i) == chain_.end()) {
        most += free_.CountInZone(zones_[i]);
        --left;
      }
    }
    return most >= request_.nodes;
  }

  [[nodiscard]] std::vector<ZonePart> CutAt(const std::vector<uint32_t>& places) const {
    std::vector<uint32_t> zones;
    std::vector<uint32_t> pairs_max;
    for (const uint32_t place : places) {
      if (!zones.empty()) {
        pairs_max.push_back(request_.boundaries->Find(zones.back(), zones_[place])->PairsLeft());
      }
      zones.push_back(zones_[place]);
    }
    return Cut(free_, zones, pairs_, pairs_max);
  }

  const FreeNodes& free_;
  const ChainRequest& request_;
  const std::vector<uint32_t> zones_;  // with most free nodes first
  const std::vector<uint32_t>& pairs_;
  const uint32_t fewest_pairs_;  // at any cut
  size_t length_ = 0;
  uint32_t steps_ = kChainSteps;
  uint32_t cuts_ = kCutsTried;
  std::vector<uint32_t> chain_;  // places in `zones_`
  std::vector<Found> found_;
};

}  // namespace

ZoneChain ChooseChain(const FreeNodes& free, const ChainRequest& request) {
  const std::vector<uint32_t> zones = ZonesByFree(free, request);
  const std::vector<uint32_t> fewest = FewestOf(free, request, zones);
  if (fewest.empty() || request.nodes < 2) {
    return {};
  }
  const std::vector<uint32_t> pairs = NcclPairsByCut(request.nodes);
  return request.boundaries == nullptr
             ? ZoneChain{Cut(free, fewest, pairs, {}), false}
             : ChainSearch(free, request, zones, pairs).Run(std::max<size_t>(2, fewest.size()));
}

bool HasChain(const FreeNodes& free, const ChainRequest& request) {
  return request.boundaries == nullptr
             ? !FewestOf(free, request, ZonesByFree(free, request)).empty()
             : !ChooseChain(free, request).parts.empty();
}

}  // namespace tide
