#include "scheduler/core/retention.h"

#include <algorithm>

namespace tide {
namespace {

// Between two steps that archive or forget one after the other: others want the disk, too.
constexpr Duration kPause = Duration::Millis(20);

// So many more than wanted. Below a batch there are none: a full cluster would else archive one
// job with each that ends.
size_t CountExcess(const ClusterState& state, const Policy& policy) {
  const size_t wanted = policy.finished_max;
  const size_t batch = std::clamp<size_t>(wanted / 8, 1, kArchivedAtOnceMax);
  const size_t there = state.finished.oldest.size();
  return there < wanted + batch ? 0 : there - wanted;
}

}  // namespace

std::optional<JobsArchived> ProposeArchiving(const ClusterState& state,
                                             const Policy& policy,
                                             Instant now) {
  const size_t excess = CountExcess(state, policy);
  JobsArchived archived{{}, policy.share_half_life};
  for (const auto& [ended, id] : state.finished.oldest) {
    const bool due = archived.jobs.size() < excess || ended + policy.keep_finished <= now;
    // Its row is not written yet, so that it cannot be moved.
    if (!due || archived.jobs.size() == kArchivedAtOnceMax || state.changed.jobs.contains(id)) {
      break;
    }
    archived.jobs.push_back(id);
  }
  if (archived.jobs.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(archived.jobs);
  return archived;
}

Instant ArchivingDueAt(const ClusterState& state, const Policy& policy, Instant now) {
  if (state.finished.oldest.empty()) {
    return Instant::Never();
  }
  const Instant aged = state.finished.oldest.begin()->first + policy.keep_finished;
  return CountExcess(state, policy) > 0 ? now + kPause : std::max(aged, now + kPause);
}

std::optional<IncidentsForgotten> ProposeForgetting(const ClusterState& state,
                                                    const Policy& policy,
                                                    Instant now) {
  IncidentsForgotten forgotten;
  for (const auto& [cleared_at, id] : state.open_incidents.over) {
    if (cleared_at + policy.keep_incidents > now ||
        forgotten.incidents.size() == kForgottenAtOnceMax) {
      break;
    }
    forgotten.incidents.push_back(id);
  }
  if (forgotten.incidents.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(forgotten.incidents);
  return forgotten;
}

Instant ForgettingDueAt(const ClusterState& state, const Policy& policy, Instant now) {
  const auto& over = state.open_incidents.over;
  return over.empty() ? Instant::Never()
                      : std::max(over.begin()->first + policy.keep_incidents, now + kPause);
}

}  // namespace tide
