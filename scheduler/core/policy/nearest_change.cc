#include "scheduler/core/policy/nearest_change.h"

#include <algorithm>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/size.h"

namespace tide {

HigherClasses::HigherClasses(const ClusterState& state, const Runners& runners)
    : fabric_(state.fabric), running_(fabric_.zones.size()) {
  for (const Runner& runner : runners.all()) {
    if (runner.allocation->part) {
      continue;  // a node that several share is given up by all of them or not at all
    }
    uint32_t* count = nullptr;
    uint32_t zone = 0;
    for (const NodeId node : runner.allocation->nodes) {
      if ((state.node_flags[node.value()] & kTakesWork) == 0 ||
          state.uses[node.value()].first().job != runner.job->id) {
        continue;
      }
      if (const uint32_t at = fabric_.ZoneIndexOf(node); count == nullptr || at != zone) {
        zone = at;
        count = &running_[zone][runner.priority];
      }
      ++*count;
    }
  }
}

std::optional<int32_t> HigherClasses::Find(const Job& job,
                                           int32_t priority,
                                           const FreeNodes& idle,
                                           bool may_cross) const {
  const int index = fabric_.FindGroup(job.spec.group);
  if (index < 0) {
    return std::nullopt;
  }
  const FabricGroup& group = fabric_.groups[static_cast<size_t>(index)];
  const bool named = IsNamedZone(job.spec.zone);
  std::optional<int32_t> lowest;
  for (const PriorityClass& higher : kPriorityClasses) {  // highest first
    if (higher.value <= priority) {
      break;
    }
    uint32_t most = 0;
    uint32_t second = 0;
    for (uint32_t zone = group.first_zone; zone < group.first_zone + group.zone_count; ++zone) {
      if (named && fabric_.zones[zone].name != job.spec.zone) {
        continue;
      }
      uint32_t nodes = idle.CountInZone(zone);
      for (const auto& [runs_in, count] : running_[zone]) {
        nodes += runs_in < higher.value ? count : 0;
      }
      second = std::max(second, std::min(most, nodes));
      most = std::max(most, nodes);
    }
    const bool crosses = job.spec.zone == "cross-ok" && may_cross;
    if (most + (crosses ? second : 0) < job.spec.nodes) {
      break;
    }
    lowest = higher.value;
  }
  return lowest;
}

}  // namespace tide
