#include "sim/chaos/store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "scheduler/store/codec.h"
#include "scheduler/store/summed_rows.h"

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

// Rows lie here as the model's values, which are exactly what their text says (codec.h); only one
// that is damaged is read as the store reads it.
Result<ClusterState> ClusterStore::Load() const {
  ClusterState state = rows_;
  if (damaged_) {
    if (proves_rows) {
      TIDE_TRY(CheckRow(Tables().jobs, damaged_->row));
    }
    TIDE_ASSIGN(Job read, DecodeJob(std::get<std::string>(damaged_->row.at(1))));
    Job& job = state.jobs.at(damaged_->job);
    read.attempts = job.attempts;  // rows of their own
    job = std::move(read);
  }
  RebuildDerived(state);
  return state;
}

bool ClusterStore::FlipBit(Prng& prng) {
  if (rows_.jobs.empty() || damaged_) {
    return false;
  }
  const Job& job =
      std::next(rows_.jobs.begin(), static_cast<std::ptrdiff_t>(prng.Below(rows_.jobs.size())))
          ->second;
  SqlRow row = {static_cast<int64_t>(job.id.value()), EncodeJobRow(job), int64_t{0}};
  row.back() = SumOf(Tables().jobs, row);
  auto& data = std::get<std::string>(row.at(1));
  char& byte = data[prng.Below(data.size())];
  byte = static_cast<char>(byte ^ (1 << prng.Below(8)));
  damaged_ = {job.id, std::move(row)};
  return true;
}

void ClusterStore::Overwrite(const StepResult& step) {
  if (damaged_ && (step.changed.jobs.contains(damaged_->job) ||
                   step.changed.archived.contains(damaged_->job))) {
    damaged_.reset();
  }
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
  Overwrite(step);
  rows_.nodes.resize(state.nodes.size());
  for (const NodeId id : step.changed.nodes) {
    rows_.nodes[id.value()] = state.nodes[id.value()];
  }
  for (const JobId id : step.changed.jobs) {
    rows_.jobs[id] = state.jobs.at(id);
  }
  for (const IncidentId id : step.changed.incidents) {
    if (const auto known = state.incidents.find(id); known != state.incidents.end()) {
      rows_.incidents[id] = known->second;
    } else {
      rows_.incidents.erase(id);
    }
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
