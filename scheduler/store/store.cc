#include "scheduler/store/store.h"

#include <utility>

#include "scheduler/store/lease.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/rows.h"

namespace tide {

Result<std::unique_ptr<Store>> Store::Open(std::unique_ptr<Database> database,
                                           const std::string& holder,
                                           Instant now) {
  std::unique_ptr<Store> store(new Store(std::move(database)));
  Database& db = *store->database_;
  TIDE_ASSIGN(const int version, ReadSchemaVersion(db, BuiltInMigrations()));
  if (version > 0) {
    TIDE_TRY(CheckLeaseIsFree(db, holder, now));
  }
  TIDE_TRY(Migrate(db, BuiltInMigrations(), now));
  TIDE_ASSIGN(store->term_, AcquireLease(db, holder, now));
  store->renew_at_ = now + kLeaseRenewal;
  TIDE_ASSIGN(const SqlRows last, db.Run("SELECT coalesce(max(seq), 0) FROM events", {}));
  TIDE_ASSIGN(store->last_seq_, IntAt(last.rows.at(0), 0, "events.seq"));
  return store;
}

Result<ClusterState> Store::Load() {
  TIDE_ASSIGN(ClusterState state, LoadState(*database_));
  written_.clear();
  for (const auto& [id, job] : state.jobs) {
    Remember(job);
  }
  written_next_job_id_ = state.next_job_id;
  written_next_incident_id_ = state.next_incident_id;
  return state;
}

Status Store::Commit(const ClusterState& state, const StepResult& step, Instant now) {
  if (failed_) {
    return std::unexpected(*failed_);
  }
  if (step.changed.empty() && step.log.empty() && now < renew_at_) {
    return {};
  }
  Status written = database_->Begin();
  if (written) {
    written = WriteStep(state, step, now);
  }
  if (written) {
    written = database_->Commit();
  }
  if (!written) {
    database_->Rollback();
    failed_ = written.error();
    return written;
  }
  last_seq_ += static_cast<int64_t>(step.log.size());
  renew_at_ = now + kLeaseRenewal;
  ++renewals_;
  return {};
}

Status Store::Release(Instant now) {
  return ReleaseLease(*database_, term_, now);
}

Status Store::WriteStep(const ClusterState& state, const StepResult& step, Instant now) {
  TIDE_TRY(RenewLease(*database_, term_, now));
  for (const NodeId id : step.changed.nodes) {
    TIDE_TRY(
        WriteNode(*database_, state.nodes.at(id.value()), state.uses.at(id.value()).first().job));
  }
  for (const JobId id : step.changed.jobs) {
    TIDE_TRY(WriteJobRows(state.jobs.at(id)));
  }
  for (const IncidentId id : step.changed.incidents) {
    TIDE_TRY(WriteIncident(*database_, state.incidents.at(id)));
  }
  int64_t seq = last_seq_;
  for (const Event& event : step.log) {
    TIDE_TRY(WriteEvent(*database_, ++seq, event));
  }
  return WriteCounters(state);
}

Status Store::WriteJobRows(const Job& job) {
  TIDE_TRY(WriteJob(*database_, job));
  const auto it = written_.find(job.id);
  const size_t settled = it == written_.end() ? 0 : it->second.settled;
  for (size_t index = settled; index < job.attempts.size(); ++index) {
    TIDE_TRY(WriteAttemptRows(job, index));
  }
  Remember(job);
  return {};
}

Status Store::WriteAttemptRows(const Job& job, size_t index) {
  const Attempt& attempt = job.attempts[index];
  const auto it = written_.find(job.id);
  const Attempt* before = nullptr;
  if (it != written_.end() && it->second.settled == index) {
    const std::optional<Attempt>& open = it->second.open;
    if (open && open->epoch == attempt.epoch) {
      before = &*open;
    }
  }
  if (before != nullptr && *before == attempt) {
    return {};
  }
  TIDE_TRY(WriteAttempt(*database_, job, attempt));
  for (uint32_t task = 0; task < attempt.tasks.size(); ++task) {
    if (before == nullptr || task >= before->tasks.size() ||
        before->tasks[task] != attempt.tasks[task]) {
      TIDE_TRY(WriteTask(*database_, job.id, attempt, task));
    }
  }
  return {};
}

void Store::Remember(const Job& job) {
  if (job.attempts.empty()) {
    return;
  }
  WrittenAttempts& written = written_[job.id];
  if (job.attempts.back().released_at.is_set()) {
    written.settled = job.attempts.size();
    written.open.reset();
  } else {
    written.settled = job.attempts.size() - 1;
    written.open = job.attempts.back();
  }
}

Status Store::WriteCounters(const ClusterState& state) {
  if (state.next_job_id != written_next_job_id_) {
    TIDE_TRY(WriteCounter(*database_, kNextJobCounter, state.next_job_id));
    written_next_job_id_ = state.next_job_id;
  }
  if (state.next_incident_id != written_next_incident_id_) {
    TIDE_TRY(WriteCounter(*database_, kNextIncidentCounter, state.next_incident_id));
    written_next_incident_id_ = state.next_incident_id;
  }
  return {};
}

}  // namespace tide
