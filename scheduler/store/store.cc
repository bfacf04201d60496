#include "scheduler/store/store.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "scheduler/store/archive.h"
#include "scheduler/store/lease.h"
#include "scheduler/store/load.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/summed_rows.h"

namespace tide {

namespace {

// One try. A server that hangs for so long is left alone, and another connection made.
constexpr Duration kTryPatience = Duration::Seconds(4);
// So much of the lease is left for ending this process when no try succeeds.
constexpr Duration kLeaseMargin = Duration::Seconds(1);
constexpr Duration kPause = Duration::Millis(50);

Status WriteStaged(Database& database, const SecretRow& row) {
  return WriteSecret(database, row);
}
Status WriteStaged(Database& database, const PeopleRecord& record) {
  return WritePeopleRecord(database, record);
}
Status WriteStaged(Database& database, const AuditEntry& entry) {
  return WriteAuditEntry(database, entry);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(std::unique_ptr<Database> database,
                                           const std::string& holder,
                                           Instant now,
                                           std::function<int64_t()> boot_clock) {
  std::unique_ptr<Store> store(new Store(std::move(database), std::move(boot_clock)));
  Database& db = *store->database_;
  TIDE_ASSIGN(const int version, ReadSchemaVersion(db, BuiltInMigrations()));
  // Read before the lock is asked for: who takes the lease later is alive.
  TIDE_ASSIGN(const int64_t last_term, version > 0 ? ReadLeaseTerm(db) : Result<int64_t>(0));
  TIDE_ASSIGN(const bool alone, db.LockOthersOut(Database::Others::kLeave));
  const Candidate candidate{holder, now, alone ? std::optional(last_term) : std::nullopt};
  if (version > 0) {
    TIDE_TRY(CheckLeaseIsFree(db, candidate));
  }
  if (!alone && last_term > 0) {
    // Its lease is over, and it is connected: it hangs, perhaps while it holds the lease's row.
    TIDE_TRY(db.LockOthersOut(Database::Others::kEnd));
  }
  TIDE_TRY(Migrate(db, BuiltInMigrations(), now, [&] { return KeepLeaseFree(db, candidate); }));
  store->opened_ = now;
  store->opened_ns_ = store->proved_ns_ = store->looked_ns_ = store->boot_clock_();
  TIDE_ASSIGN(store->term_, AcquireLease(db, candidate));
  // A newer program may have migrated between the first look and the lease; now none can.
  if (const auto still = ReadSchemaVersion(db, BuiltInMigrations()); !still) {
    (void)store->Release(now);
    return std::unexpected(still.error());
  }
  store->renew_at_ = now + kLeaseRenewal;
  TIDE_TRY(store->ReadClusterId());
  TIDE_ASSIGN(const SqlRows last, db.Run("SELECT coalesce(max(seq), 0) FROM events", {}));
  TIDE_ASSIGN(store->last_seq_, IntAt(last.rows.at(0), 0, "events.seq"));
  return store;
}

Result<ClusterState> Store::Load() {
  TIDE_ASSIGN(ClusterState state, LoadState(*database_, [this] { return KeepLease(); }));
  written_.clear();
  for (const auto& [id, job] : state.jobs) {
    Remember(job);
  }
  written_next_job_id_ = state.next_job_id;
  written_next_incident_id_ = state.next_incident_id;
  TIDE_TRY(KeepLease());
  return state;
}

Status Store::KeepLease() {
  const int64_t asked_ns = boot_clock_();
  if (asked_ns - proved_ns_ < kLeaseRenewal.nanos()) {
    return {};
  }
  const Instant now = opened_ + Duration::Nanos(asked_ns - opened_ns_);
  Status kept = database_->Begin(kTryPatience);
  if (kept) {
    const Result<int64_t> renewed = RenewLease(*database_, term_, now, 0);
    kept = renewed ? database_->Commit() : std::unexpected(renewed.error());
  }
  database_->Rollback();
  if (kept) {
    proved_ns_ = asked_ns;
  }
  return kept;
}

Status Store::Commit(const ClusterState& state, const StepResult& step, Instant now) {
  if (failed_) {
    return std::unexpected(*failed_);
  }
  if (step.changed.empty() && step.log.empty() && staged_.empty() && now < renew_at_) {
    return {};
  }
  const int64_t asked_ns = boot_clock_();
  if (Status written = CommitBatch(state, step, now); !written) {
    database_->Rollback();
    failed_ = written.error();
    return written;
  }
  proved_ns_ = asked_ns;
  renew_at_ = now + kLeaseRenewal;
  ++batch_;
  Acknowledge(state, step);
  return {};
}

Status Store::CommitBatch(const ClusterState& state, const StepResult& step, Instant now) {
  const int64_t until = std::max(proved_ns_ + (kLeaseDuration - kLeaseMargin).nanos(),
                                 boot_clock_() + kTryPatience.nanos());
  Doubt doubt = Doubt::kNone;
  while (true) {
    const Duration left = Duration::Nanos(until - boot_clock_());
    Status written = TryBatch(state, step, now, doubt, std::min(left, kTryPatience));
    if (written || written.error().code != ErrorCode::kUnavailable) {
      return written;
    }
    database_->Rollback();
    doubt = Doubt::kLookUp;
    if (boot_clock_() + kPause.nanos() >= until) {
      return Fail(ErrorCode::kUnavailable,
                  written.error().message +
                      "; whether the last batch is committed is not known: the next scheduler "
                      "goes on from what is");
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kPause.nanos()));  // tidy: poll
  }
}

Status Store::TryBatch(const ClusterState& state,
                       const StepResult& step,
                       Instant now,
                       Doubt doubt,
                       Duration patience) {
  const int64_t asked_ns = boot_clock_();
  if (doubt == Doubt::kNone && asked_ns - looked_ns_ < kLeaseRenewal.nanos()) {
    return TryBatchAtOnce(state, step, now, patience);
  }
  TIDE_TRY(database_->Begin(patience));
  int64_t newest = batch_;
  if (doubt == Doubt::kLookUp) {
    TIDE_ASSIGN(newest, RenewLease(*database_, term_, now, 0));
    if (newest == batch_ + 1) {
      // It was committed. This commit comes behind it, so it returns only when that one is as
      // durable as it gets: a synchronous standby has it, too.
      return database_->Commit();
    }
  }
  if (newest == batch_) {
    TIDE_ASSIGN(newest, RenewLease(*database_, term_, now, 1));
  }
  if (newest != batch_ + 1) {
    return NotTheNewest();
  }
  looked_ns_ = asked_ns;
  TIDE_TRY(WriteStep(state, step));
  return database_->Commit();
}

Status Store::TryBatchAtOnce(const ClusterState& state,
                             const StepResult& step,
                             Instant now,
                             Duration patience) {
  TIDE_TRY(database_->Begin(patience));
  Status written = QueueRenewal(*database_, term_, now, batch_);
  if (written) {
    written = WriteStep(state, step);
  }
  if (written) {
    written = database_->Commit();
  }
  if (written || written.error().code == ErrorCode::kUnavailable) {
    return written;
  }
  // Is it the lease's error? The message of a column that must not be NULL helps nobody.
  database_->Rollback();
  TIDE_TRY(database_->Begin(patience));
  TIDE_TRY(CheckLease(now));
  return written;
}

Status Store::CheckLease(Instant now) {
  TIDE_ASSIGN(const int64_t newest, RenewLease(*database_, term_, now, 0));
  return newest == batch_ ? Status() : NotTheNewest();
}

std::unexpected<Error> Store::NotTheNewest() const {
  return Fail(ErrorCode::kCorrupt,
              database_->Name() + ": the newest batch of term " + std::to_string(term_.value()) +
                  " is not the one this scheduler wrote (" + std::to_string(batch_) +
                  "): was a backup restored, or did a standby take over that lagged behind? "
                  "Acknowledged work may be lost; the next scheduler goes on from what is there");
}

Status Store::ReadClusterId() {
  constexpr size_t kIdBytes = 8;
  TIDE_ASSIGN(const SqlRows found, ReadRows(*database_, Tables().cluster));
  if (!found.rows.empty()) {
    TIDE_ASSIGN(cluster_id_, TextAt(found.rows.front(), 0, "cluster.id"));
    return {};
  }
  cluster_id_ = RandomHex(kIdBytes);
  TIDE_TRY(database_->Begin(kTryPatience));
  Status written = WriteRow(*database_, Tables().cluster, {cluster_id_});
  if (written) {
    written = database_->Commit();
  }
  database_->Rollback();
  return written;
}

Status Store::Release(Instant now) {
  Status released = database_->Begin(kTryPatience);
  if (released) {
    released = ReleaseLease(*database_, term_, now);
  }
  if (released) {
    released = database_->Commit();
  }
  database_->Rollback();
  return released;
}

void Store::Acknowledge(const ClusterState& state, const StepResult& step) {
  last_seq_ += static_cast<int64_t>(step.log.size());
  staged_.clear();
  for (const JobId id : step.changed.jobs) {
    Remember(state.jobs.at(id));
  }
  for (const JobId id : step.changed.archived) {
    written_.erase(id);
  }
  written_next_job_id_ = state.next_job_id;
  written_next_incident_id_ = state.next_incident_id;
}

Status Store::WriteStep(const ClusterState& state, const StepResult& step) {
  for (const NodeId id : step.changed.nodes) {
    TIDE_TRY(
        WriteNode(*database_, state.nodes.at(id.value()), state.uses.at(id.value()).first().job));
  }
  for (const JobId id : step.changed.jobs) {
    TIDE_TRY(WriteJobRows(state.jobs.at(id)));
  }
  for (const IncidentId id : step.changed.incidents) {
    TIDE_TRY(WriteIncident(*database_, state, id));
  }
  // Before this step's events are written: they stay, also those that name an archived job.
  TIDE_TRY(MoveToArchive(*database_, step.changed.archived));
  for (const RunHistory::Owner& owner : step.changed.archived_use) {
    TIDE_TRY(WriteArchivedUse(*database_, state, owner));
  }
  for (const JobId id : step.changed.archived_runs) {
    TIDE_TRY(WriteArchivedRun(*database_, state, id));
  }
  for (const StagedRow& row : staged_) {
    TIDE_TRY(std::visit([this](const auto& each) { return WriteStaged(*database_, each); }, row));
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
  }
  if (state.next_incident_id != written_next_incident_id_) {
    TIDE_TRY(WriteCounter(*database_, kNextIncidentCounter, state.next_incident_id));
  }
  return {};
}

}  // namespace tide
