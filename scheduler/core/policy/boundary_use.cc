#include "scheduler/core/policy/boundary_use.h"

#include <string>

#include "common/fabric/comm_plan.h"

namespace tide {

BoundaryUse::BoundaryUse(const std::vector<Boundary>& boundaries, const Fabric& fabric)
    : fabric_(&fabric) {
  std::map<std::string, uint32_t> numbers;
  for (const FabricZone& zone : fabric.zones) {
    const auto next = static_cast<uint32_t>(numbers.size());
    sites_.push_back(numbers.emplace(zone.name, next).first->second);
  }
  for (const Boundary& boundary : boundaries) {
    const auto first = numbers.find(boundary.first);
    const auto second = numbers.find(boundary.second);
    if (first != numbers.end() && second != numbers.end()) {
      passages_[std::minmax(first->second, second->second)] = {
          0, 0, boundary.jobs_max, boundary.pairs_max};
    }
  }
}

std::vector<uint32_t> BoundaryUse::SitesOf(const std::vector<NodeId>& nodes) const {
  std::vector<uint32_t> sites;
  sites.reserve(nodes.size());
  for (const NodeId node : nodes) {
    sites.push_back(sites_[fabric_->ZoneIndexOf(node)]);
  }
  return sites;
}

void BoundaryUse::Add(const std::vector<NodeId>& nodes) {
  for (const ZoneCrossing& crossing : CrossingsOf(SitesOf(nodes))) {
    const auto found = passages_.find(std::minmax(crossing.from, crossing.to));
    if (found != passages_.end()) {  // else the file has changed since
      ++found->second.jobs;
      found->second.pairs += crossing.pairs;
    }
  }
}

bool BoundaryUse::Allows(const std::vector<NodeId>& nodes) const {
  return std::ranges::all_of(CrossingsOf(SitesOf(nodes)), [&](const ZoneCrossing& crossing) {
    const auto found = passages_.find(std::minmax(crossing.from, crossing.to));
    return found != passages_.end() && crossing.pairs <= found->second.PairsLeft();
  });
}

bool BoundaryUse::PassesFullOne(const std::vector<NodeId>& nodes) const {
  return std::ranges::any_of(CrossingsOf(SitesOf(nodes)), [&](const ZoneCrossing& crossing) {
    const auto found = passages_.find(std::minmax(crossing.from, crossing.to));
    return found != passages_.end() && found->second.PairsLeft() == 0;
  });
}

BoundaryUse BoundaryUse::Unused() const {
  BoundaryUse unused = *this;
  for (auto& [key, passage] : unused.passages_) {
    passage.jobs = 0;
    passage.pairs = 0;
  }
  return unused;
}

const BoundaryUse::Passage* BoundaryUse::Find(uint32_t zone, uint32_t other) const {
  const auto found = passages_.find(std::minmax(sites_[zone], sites_[other]));
  return found == passages_.end() ? nullptr : &found->second;
}

}  // namespace tide
