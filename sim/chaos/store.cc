#include "sim/chaos/store.h"

#include <algorithm>
#include <utility>

namespace tide::chaos {

Result<Term> ClusterStore::Acquire(uint32_t holder, Instant now, bool exclusive) {
  const bool free = lease_term_ == Term() || expires_ <= now || holder_ == holder || exclusive;
  if (!free) {
    return Fail(ErrorCode::kConflict, "another scheduler leads");
  }
  const auto seconds = static_cast<uint64_t>(now.unix_nanos() / 1'000'000'000);
  lease_term_ = Term(std::max(lease_term_.value() + 1, seconds));
  ++leaders_;
  holder_ = holder;
  expires_ = now + kLeaseDuration;
  return lease_term_;
}

ClusterState ClusterStore::Load() const {
  ClusterState state = rows_;
  RebuildDerived(state);
  return state;
}

Status ClusterStore::Commit(Term term,
                            const ClusterState& state,
                            const StepResult& step,
                            Instant now) {
  if (term != lease_term_ && !ignores_term) {
    return Fail(ErrorCode::kStaleTerm, "another scheduler has taken over");
  }
  if (keep_undo) {
    undo_ = {rows_, archived_, events_.size()};
  }
  expires_ = now + kLeaseDuration;
  rows_.nodes.resize(state.nodes.size());
  for (const NodeId id : step.changed.nodes) {
    rows_.nodes[id.value()] = state.nodes[id.value()];
  }
  for (const JobId id : step.changed.jobs) {
    rows_.jobs[id] = state.jobs.at(id);
  }
  for (const IncidentId id : step.changed.incidents) {
    rows_.incidents[id] = state.incidents.at(id);
  }
  for (const JobId id : step.changed.archived) {
    auto moved = rows_.jobs.extract(id);
    if (!loses_archived) {
      archived_.insert(std::move(moved));
    }
  }
  rows_.archived_use = state.archived_use;
  rows_.archived_runs = state.archived_runs;
  rows_.next_job_id = state.next_job_id;
  rows_.next_incident_id = state.next_incident_id;
  events_.insert(events_.end(), step.log.begin(), step.log.end());
  return {};
}

void ClusterStore::UndoLast() {
  if (auto undo = std::exchange(undo_, std::nullopt)) {
    rows_ = std::move(undo->rows);
    archived_ = std::move(undo->archived);
    events_.resize(undo->events);
  }
}

}  // namespace tide::chaos
