#pragma once
// What the schedulers share: the lease, the rows and the log, with the rules of scheduler/store: a
// commit proves the term in its own transaction, and writes the changed rows and the events or
// nothing; archived jobs leave the rows. It fails when asked to; what was acknowledged is synced,
// unless a mutation says not.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/prng.h"
#include "scheduler/core/lease.h"
#include "scheduler/core/step.h"
#include "scheduler/store/database.h"

namespace tide::chaos {

class ClusterStore {
 public:
  explicit ClusterStore(std::string cluster) : cluster_(std::move(cluster)) {}

  // exclusive: holding the store proves that no other scheduler lives (one scheduler on SQLite).
  //   Errors: kConflict while another scheduler's lease is in force.
  [[nodiscard]] Result<Term> Acquire(uint32_t holder, Instant now, bool exclusive);
  // Errors: kCorrupt, naming a row in which a bit has flipped.
  [[nodiscard]] Result<ClusterState> Load() const;
  // Errors: kStaleTerm.
  [[nodiscard]] Status Commit(Term term,
                              const ClusterState& state,
                              const StepResult& step,
                              Instant now);
  void UndoLast();
  // A bit flips in a job's row on the disk. False where there is no row, or one is damaged already.
  [[nodiscard]] bool FlipBit(Prng& prng);
  // Somebody puts the row back as it was committed.
  void Restore() { damaged_.reset(); }

  [[nodiscard]] const std::string& cluster() const { return cluster_; }
  [[nodiscard]] Term term() const { return lease_term_; }
  [[nodiscard]] uint64_t leaders() const { return leaders_; }  // so far
  [[nodiscard]] const ClusterState& rows() const { return rows_; }
  [[nodiscard]] const std::map<JobId, Job>& archived() const { return archived_; }
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }

 private:
  struct Undo {
    ClusterState rows;
    std::map<JobId, Job> archived;
    size_t events = 0;
  };

  struct Damaged {
    JobId job;
    SqlRow row;  // as the store reads it
  };
  // Forgets the damage of rows that this step writes anew.
  void Overwrite(const StepResult& step);

  const std::string cluster_;
  Term lease_term_;
  uint64_t leaders_ = 0;
  uint32_t holder_ = 0;
  Instant expires_;
  ClusterState rows_;  // without what RebuildDerived makes
  std::map<JobId, Job> archived_;
  std::vector<Event> events_;
  std::optional<Undo> undo_;
  std::optional<Damaged> damaged_;

 public:
  bool keep_undo = false;     // for the mutation that loses commits
  bool ignores_term = false;  // for those that let former leaders write
  bool loses_archived = false;
  bool proves_rows = true;
};

}  // namespace tide::chaos
