#include "scheduler/core/policy/nearest_change.h"

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/size.h"

namespace tide {

HigherClasses::HigherClasses(const ClusterState& state, const Runners& runners)
    : fabric_(state.fabric), running_(fabric_.zones.size()) {
  // Nodes that several share are left out: all of them give one up, or none.
  JobId last;
  uint32_t* count = nullptr;
  uint32_t zone = 0;
  for (uint32_t i = 0; i < state.whole_on.size(); ++i) {
    const JobId job = state.whole_on[i];
    if (job == JobId() || (state.node_flags[i] & kTakesWork) == 0) {
      continue;
    }
    if (const uint32_t at = fabric_.ZoneIndexOf(NodeId(i));
        count == nullptr || job != last || at != zone) {
      last = job;
      zone = at;
      count = &running_[zone][runners.Find(job)->priority];
    }
    ++*count;
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
  const bool in_one = job.spec.zone == kCrossOk && !may_cross;
  const std::string_view rule = in_one ? kSingleZone : std::string_view(job.spec.zone);
  std::optional<int32_t> lowest;
  for (const PriorityClass& higher : kPriorityClasses) {  // highest first
    if (higher.value <= priority) {
      break;
    }
    const uint32_t most = LargestGang(fabric_, group, rule, [&](uint32_t zone) {
      uint32_t nodes = idle.CountInZone(zone);
      for (const auto& [runs_in, count] : running_[zone]) {
        nodes += runs_in < higher.value ? count : 0;
      }
      return nodes;
    });
    if (most < job.spec.nodes) {
      break;
    }
    lowest = higher.value;
  }
  return lowest;
}

}  // namespace tide
