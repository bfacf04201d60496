#include "scheduler/core/policy/victims.h"

#include <algorithm>
#include <tuple>

namespace tide {
namespace {

std::vector<NodeId> PoolWith(std::vector<NodeId> pool,
                             const std::vector<VictimCandidate>& candidates) {
  for (const VictimCandidate& candidate : candidates) {
    pool.insert(pool.end(), candidate.nodes.begin(), candidate.nodes.end());
  }
  return pool;
}

}  // namespace

VictimPlan ChooseVictims(const ClusterState& state,
                         const PlacementRequest& request,
                         const std::vector<NodeId>& pool,
                         std::vector<VictimCandidate> candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const Instant a_start = a.job->attempts.back().placed_at;
    const Instant b_start = b.job->attempts.back().placed_at;
    return std::tuple(a.job->spec.priority, b_start, b.job->id) <
           std::tuple(b.job->spec.priority, a_start, a.job->id);
  });
  std::vector<VictimCandidate> chosen;
  PlacementResult placement;
  for (VictimCandidate& candidate : candidates) {
    chosen.push_back(std::move(candidate));
    placement = Place(state, request, PoolWith(pool, chosen));
    if (!placement.nodes.empty()) {
      break;
    }
  }
  if (placement.nodes.empty()) {
    return {};
  }
  // Spare those taken early that the later ones made unnecessary, the dearest first.
  for (size_t i = chosen.size(); i-- > 0;) {
    std::vector<VictimCandidate> fewer = chosen;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    PlacementResult without = Place(state, request, PoolWith(pool, fewer));
    if (!without.nodes.empty()) {
      chosen = std::move(fewer);
      placement = std::move(without);
    }
  }
  VictimPlan plan;
  plan.nodes = placement.nodes;
  for (const VictimCandidate& victim : chosen) {
    const bool used = std::any_of(victim.nodes.begin(), victim.nodes.end(), [&](NodeId id) {
      return std::find(plan.nodes.begin(), plan.nodes.end(), id) != plan.nodes.end();
    });
    if (used) {
      plan.victims.push_back(victim.job->id);
    }
  }
  std::sort(plan.victims.begin(), plan.victims.end());
  return plan;
}

}  // namespace tide
