#include "scheduler/core/policy/nearest_change.h"

#include <algorithm>

#include "scheduler/core/model/index.h"
#include "scheduler/core/policy/size.h"

namespace tide {

HigherClasses::HigherClasses(const ClusterState& state,
                             const Runners& runners,
                             const Quotas& quotas)
    : state_(state),
      fabric_(state.fabric),
      held_by_(state.nodes.size()),
      held_(fabric_.zones.size()) {
  // Nodes that several share are left out: all of them give one up, or none.
  JobId last;
  int32_t runs_in = 0;
  for (uint32_t i = 0; i < state.whole_on.size(); ++i) {
    const JobId job = state.whole_on[i];
    if (job == JobId() || (state.node_flags[i] & kTakesWork) == 0) {
      continue;
    }
    if (job != last) {
      last = job;
      runs_in = runners.Find(job)->priority;
    }
    int32_t held = runs_in;
    for (const JobId claimant : state.uses[i].claimants) {
      held = std::max(held, quotas.ClassOf(state.jobs.at(claimant)));
    }
    held_by_[i] = held;
    ++held_[fabric_.ZoneIndexOf(NodeId(i))][held];
  }
}

uint32_t HigherClasses::CountFor(const JobSpec& spec,
                                 uint32_t zone,
                                 int32_t priority,
                                 const FreeNodes& idle) const {
  const FabricZone& where = fabric_.zones[zone];
  if (AllCanHold(fabric_.groups[where.group], spec)) {
    uint32_t nodes = idle.CountInZone(zone);
    for (const auto& [held, count] : held_[zone]) {
      nodes += held < priority ? count : 0;
    }
    return nodes;
  }
  uint32_t nodes = 0;
  for (uint32_t leaf = where.first_leaf; leaf < where.first_leaf + where.leaf_count; ++leaf) {
    for (const NodeId node : fabric_.leaves[leaf].nodes) {
      const std::optional<int32_t>& held = held_by_[node.value()];
      const bool gets = idle.Contains(node) || (held && *held < priority);
      nodes += gets && CanHold(state_.nodes[node.value()].identity.capacity, spec) ? 1 : 0;
    }
  }
  return nodes;
}

std::optional<int32_t> HigherClasses::Find(const Job& job,
                                           int32_t priority,
                                           const FreeNodes& idle,
                                           bool may_cross) const {
  const int index = fabric_.FindGroup(job.spec->group);
  if (index < 0) {
    return std::nullopt;
  }
  const FabricGroup& group = fabric_.groups[static_cast<size_t>(index)];
  const bool in_one = MayLieAcross(job.spec->zone) && !may_cross;
  const std::string_view rule = in_one ? kSingleZone : std::string_view(job.spec->zone);
  std::optional<int32_t> lowest;
  for (const PriorityClass& higher : kPriorityClasses) {  // highest first
    if (higher.value <= priority) {
      break;
    }
    const uint32_t most = LargestGang(fabric_, group, rule, [&](uint32_t zone) {
      return CountFor(job.spec, zone, higher.value, idle);
    });
    if (most < job.spec->nodes) {
      break;
    }
    lowest = higher.value;
  }
  return lowest;
}

void KeepOpenClasses(const Quotas& quotas,
                     uint32_t row_set,
                     const Job& job,
                     std::vector<Reason>& reasons) {
  for (Reason& reason : reasons) {
    if (!reason.open_priority) {
      continue;
    }
    std::optional<int32_t> open;
    for (const PriorityClass& each : kPriorityClasses) {  // highest first
      if (each.value >= *reason.open_priority && quotas.MayStandIn(row_set, job, each.value)) {
        open = each.value;
      }
    }
    reason.open_priority = open;
  }
}

}  // namespace tide
