#pragma once
// Where the cluster's state lives. Owned by the loop thread.
// Invariants:
//  S1 Commit is one transaction that starts by proving the lease: a deposed leader writes nothing.
//  S2 what Commit acknowledged, Load gives back, after a kill or a power cut at any instant.
//  S3 after a failed Commit nothing more is written: the process must end and load again, since
//     memory is ahead of the log.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "scheduler/core/step.h"
#include "scheduler/store/database.h"

namespace tide {

class Store {
 public:
  // Migrates, takes the lease with the next term.
  //   holder: who leads, for people: "host:pid".
  //   Errors: kNotLeader (another scheduler leads), kConflict (newer schema), kCorrupt, kStorage.
  [[nodiscard]] static Result<std::unique_ptr<Store>> Open(std::unique_ptr<Database> database,
                                                           const std::string& holder,
                                                           Instant now);

  // Reads the whole state; its invariants hold.   Errors: kCorrupt, naming what is broken.
  [[nodiscard]] Result<ClusterState> Load();

  // Writes the changed rows and the log of one step. An empty step costs nothing, except the
  // lease's renewal when it is due; call it at least every kLeaseRenewal.
  //   Errors: kStaleTerm (another scheduler leads), kStorage. Both end the process (S3).
  //   Cost: O(changed rows); of a job, only the attempts and tasks that changed.
  [[nodiscard]] Status Commit(const ClusterState& state, const StepResult& step, Instant now);

  // Gives leadership up, for a planned end.
  [[nodiscard]] Status Release(Instant now);

  [[nodiscard]] Term term() const { return term_; }
  // Transactions so far: each of them proved and renewed the lease.
  [[nodiscard]] uint64_t renewals() const { return renewals_; }
  // The number of the newest event in the log, 0 = none.
  [[nodiscard]] int64_t last_seq() const { return last_seq_; }
  [[nodiscard]] Database& database() { return *database_; }

 private:
  explicit Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  Status WriteStep(const ClusterState& state, const StepResult& step, Instant now);
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

  std::unique_ptr<Database> database_;
  Term term_;
  int64_t last_seq_ = 0;
  Instant renew_at_;
  uint64_t renewals_ = 0;
  std::map<JobId, WrittenAttempts> written_;
  uint64_t written_next_job_id_ = 0;
  uint64_t written_next_incident_id_ = 0;
  std::optional<Error> failed_;  // S3
};

}  // namespace tide
