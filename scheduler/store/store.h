#pragma once
// Where the cluster's state lives. Owned by the loop thread.
// Invariants:
//  S1 Commit is one transaction that starts by proving the lease: a deposed leader writes nothing.
//  S2 what Commit acknowledged, Load gives back, after a kill or a power cut at any instant.
//  S3 after a failed Commit nothing more is written: the process must end and load again, since
//     memory is ahead of the log.
//  S4 a commit whose answer was lost is looked up by its number, never guessed at: the step is
//     written again only when it is proven not to be there, and while the lease lasts.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "scheduler/core/step.h"
#include "scheduler/store/database.h"
#include "scheduler/store/people.h"
#include "scheduler/store/secrets.h"

namespace tide {

// What is written beside the step of the model.
using StagedRow = std::variant<SecretRow, PeopleRecord, AuditEntry>;

class Store {
 public:
  // Migrates, takes the lease with the next term.
  //   holder: who leads, for people. A lease of the same holder is taken over at once.
  //   boot_clock: nanoseconds of a clock that also counts while the machine sleeps.
  //   Errors: kNotLeader (another scheduler leads), kNewerSchema, kCorrupt, kStorage, and those of
  //   the database.
  [[nodiscard]] static Result<std::unique_ptr<Store>> Open(
      std::unique_ptr<Database> database,
      const std::string& holder,
      Instant now,
      std::function<int64_t()> boot_clock = BootNanos);

  // Reads the whole state, and keeps the lease meanwhile; its invariants hold.
  //   Errors: kCorrupt, naming what is broken; those of Commit.
  [[nodiscard]] Result<ClusterState> Load();

  // Writes the changed rows and the log of one step. An empty step costs nothing, except the
  // lease's renewal when it is due; call it at least every kLeaseRenewal.
  // A server that goes away is asked again until shortly before the lease ends (S4).
  //   Errors: kStaleTerm (another scheduler leads), kCorrupt (the store lost what was
  //   acknowledged), kUnavailable, kStorage. All end the process (S3). Cost: O(changed rows); of a
  //   job, only the attempts and tasks that changed.
  [[nodiscard]] Status Commit(const ClusterState& state, const StepResult& step, Instant now);

  // To be written with the next step, under the same proof of the lease.
  void Stage(StagedRow row) { staged_.push_back(std::move(row)); }

  // Gives leadership up, for a planned end.
  [[nodiscard]] Status Release(Instant now);

  [[nodiscard]] Term term() const { return term_; }
  // Random, made with the store: tells this cluster from every other.
  [[nodiscard]] const std::string& cluster_id() const { return cluster_id_; }
  // Transactions so far: each of them proved and renewed the lease.
  [[nodiscard]] uint64_t renewals() const { return static_cast<uint64_t>(batch_); }
  // The number of the newest event in the log, 0 = none.
  [[nodiscard]] int64_t last_seq() const { return last_seq_; }
  [[nodiscard]] Database& database() { return *database_; }

 private:
  Store(std::unique_ptr<Database> database, std::function<int64_t()> boot_clock)
      : database_(std::move(database)), boot_clock_(std::move(boot_clock)) {}

  // Reads the cluster's id; makes it where there is none. With the lease.
  Status ReadClusterId();
  // Between the first transaction and the first commit: renews the lease when it is due.
  Status KeepLease();
  Status CommitBatch(const ClusterState& state, const StepResult& step, Instant now);
  // One try. `doubt`: an earlier one may have been committed; find out first.
  enum class Doubt {
    kNone,
    kLookUp,
  };
  Status TryBatch(const ClusterState& state,
                  const StepResult& step,
                  Instant now,
                  Doubt doubt,
                  Duration patience);
  // The same where nothing is in doubt and the lease was looked at lately: all goes out at once.
  Status TryBatchAtOnce(const ClusterState& state,
                        const StepResult& step,
                        Instant now,
                        Duration patience);
  // Inside a transaction: the lease is ours, with the batch that was written last.
  Status CheckLease(Instant now);
  std::unexpected<Error> NotTheNewest() const;
  Status WriteStep(const ClusterState& state, const StepResult& step);
  Status WriteJobRows(const Job& job);
  Status WriteAttemptRows(const Job& job, size_t index);
  Status WriteCounters(const ClusterState& state);

  // What the tables hold of a job's attempts, so that a report of one task of a large gang does
  // not write them all again.
  struct WrittenAttempts {
    size_t settled = 0;           // released attempts from the first on: they change no more
    std::optional<Attempt> open;  // the attempt after those, as written
  };
  void Remember(const Job& job);
  // After a commit: what the tables hold now.
  void Acknowledge(const ClusterState& state, const StepResult& step);

  std::unique_ptr<Database> database_;
  const std::function<int64_t()> boot_clock_;
  Term term_;
  std::string cluster_id_;
  Instant opened_;
  int64_t opened_ns_ = 0;  // of boot_clock_
  int64_t batch_ = 0;      // the newest that is committed, of this term
  int64_t proved_ns_ = 0;  // when the lease was last asked for, and then had; of boot_clock_
  int64_t looked_ns_ = 0;  // when a renewal's answer was last waited for; of boot_clock_
  int64_t last_seq_ = 0;
  Instant renew_at_;
  std::vector<StagedRow> staged_;
  std::map<JobId, WrittenAttempts> written_;
  uint64_t written_next_job_id_ = 0;
  uint64_t written_next_incident_id_ = 0;
  std::optional<Error> failed_;  // S3
};

}  // namespace tide
