#include "scheduler/core/policy/maintenance_plan.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/model/index.h"

namespace tide {
namespace {

// Times before which a job would have to end that are tried for an advice.
constexpr size_t kTimesTried = 8;

bool FitsNow(const MaintenancePlan::Asker& job, const Capacity& capacity) {
  return job.is_part ? capacity.PlacePart(job.job, job.request).has_value()
                     : !capacity.PlaceWhole(job.job, job.request, capacity.idle()).nodes.empty();
}

}  // namespace

MaintenancePlan::MaintenancePlan(const ClusterState& state, Instant now) : now_(now) {
  std::vector<std::pair<Instant, NodeId>> planned;
  for (uint32_t i = 0; i < state.nodes.size(); ++i) {
    if ((state.node_flags[i] & kTimed) == 0) {
      continue;
    }
    const Maintenance& maintenance = state.nodes[i].maintenance;
    if (maintenance.begins_at.is_set() && !maintenance.begun) {
      planned.emplace_back(maintenance.begins_at, NodeId(i));
    }
  }
  if (planned.empty()) {
    return;
  }
  std::ranges::sort(planned);
  place_.assign(state.nodes.size(), planned.size());
  for (const auto& [begins_at, node] : planned) {
    place_[node.value()] = nodes_.size();
    nodes_.push_back(node);
    begins_.push_back(begins_at);
  }
}

size_t MaintenancePlan::CountBarred(const Job& job) const {
  if (empty() || job.spec->max_runtime.nanos() <= 0) {
    return 0;
  }
  const Duration left = job.spec->max_runtime - job.run_time;
  const auto spared = std::ranges::partition_point(
      begins_, [&](Instant begins_at) { return begins_at - now_ < left; });
  return static_cast<size_t>(spared - begins_.begin());
}

void MaintenancePlan::Bar(size_t count, Capacity& capacity) const {
  capacity.Show();
  capacity.Hide(std::span(nodes_).first(count));
}

std::optional<Reason> MaintenancePlan::WhyNot(const Asker& asker,
                                              size_t count,
                                              Capacity& capacity) const {
  size_t barred = count;
  bool fits = false;
  for (size_t tries = 0; !fits && barred > 0; ++tries) {
    barred = tries < kTimesTried ? barred - 1 : 0;
    Bar(barred, capacity);
    fits = FitsNow(asker, capacity);
  }
  Bar(count, capacity);
  if (!fits) {
    return std::nullopt;
  }
  const auto kept = std::ranges::count_if(std::span(nodes_).first(count), [&](NodeId node) {
    return capacity.Suits(asker.request, node);
  });
  return Reason{.code = ReasonCode::kMaintenance,
                .count = static_cast<uint32_t>(kept),
                .until = begins_[barred]};
}

void MaintenancePlan::Tell(const Asker& asker,
                           size_t count,
                           Capacity& capacity,
                           std::vector<Reason>& reasons) const {
  if (count == 0) {
    return;
  }
  if (const auto why = WhyNot(asker, count, capacity)) {
    reasons = {*why};
  }
  for (Reason& each : reasons) {
    each.open_priority.reset();  // what a higher class would take may be barred from it as well
  }
}

}  // namespace tide
