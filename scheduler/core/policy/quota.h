#pragma once
// Who may have how many nodes: the quota rows of the policy against what runs and is claimed.
// Nodes are counted in thousandths, so that jobs that take a part of a node count for their part.
// Starts with the state and follows the pass's own proposals.
//
// A row that names a class counts the jobs that asked for that class. Jobs of class `auto` come
// after them, first started first: each stands in the highest class of which a row has nodes left
// for it, else in `low`, outside the rows that name a class. Rows without a class count them, too.
// Sub-projects count in the rows of what is above them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/model/explanation.h"
#include "scheduler/core/model/job_plan.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/job_class.h"

namespace tide {

// How a job stands to its rows. Who stands lower leaves first.
enum class Standing : uint8_t {
  kOverLimit,  // a row has less than what runs in it: it expired, or was lowered
  kBorrows,    // beyond what a row guarantees
  kNoRow,      // no row speaks of it
  kWithin,     // all of it is guaranteed
};

inline constexpr int64_t kMilliNodes = 1000;  // of one node

// Returns what a job counts for. A part of a node counts by its GPUs, or its CPUs where it has no
// GPUs; a part of CPUs as a node where the nodes do not tell how many they have.
//   largest: the largest nodes of its group.
[[nodiscard]] int64_t MilliNodesOf(const JobSpec& spec, const NodeCapacity& largest);

class Quotas {
 public:
  // Cost: O(rows + live log live) with rows, O(1) without.
  Quotas(const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now);

  // The class it stands in now: of an `auto` job the one it is given, after demotion.
  [[nodiscard]] int32_t ClassOf(const Job& job) const;
  [[nodiscard]] int32_t ClassOf(const LiveJob& job) const;
  // Of a job that holds nodes.
  [[nodiscard]] Standing StandingOf(JobId job) const;
  // Of a job that waits, were it to start now. kOverLimit: it may not.
  //   row_set: of its owner. Of another one: how a job like it would stand, if this one is counted
  //   nowhere, as it neither runs nor claims nodes.
  //   Cost: O(its rows).
  [[nodiscard]] Standing Check(uint32_t row_set, const Job& job) const;
  [[nodiscard]] Standing Check(const Job& job) { return Check(RowSetOf(job), job); }
  // Reports whether no row would keep it from starting now, had it asked for this class.
  [[nodiscard]] bool MayStandIn(uint32_t row_set, const Job& job, int32_t priority) const {
    return FitsAs(row_sets_[row_set], job, priority, false);
  }
  // One reason for each row that keeps it from starting, projects first.
  [[nodiscard]] std::vector<Reason> ReasonsFor(const Job& job);

  // Returns a number for the rows that count jobs of an owner; owners may have the same.
  //   owner: of ClusterState::owners.
  [[nodiscard]] uint32_t RowSetOf(uint32_t owner);

  // The rows that count it, as they stand without it; projects first.
  [[nodiscard]] std::vector<PlannedQuota> RowsFor(const Job& job);

  // It starts or claims nodes in this pass, or gives its claim up.
  void Add(const Job& job);
  void Remove(const Job& job);

  // When time alone next changes a row.
  [[nodiscard]] Instant NextChange() const { return next_change_; }

 private:
  struct Row {
    const QuotaRow* row = nullptr;
    int64_t named = 0;  // milli-nodes of jobs that named their class
    int64_t all = 0;    // the same with `auto` jobs
  };
  using RowIndexes = std::vector<size_t>;

  [[nodiscard]] int32_t ClassOf(JobId job, int32_t asked, Duration ran) const;
  void CollectRows();
  void CountState();
  using Live = std::pair<const LiveJob*, const Job*>;
  [[nodiscard]] std::vector<Live> InOrderOfStart() const;
  void CountAuto(const std::vector<Live>& live);
  void Add(const Job& job, uint32_t row_set);
  [[nodiscard]] uint32_t RowSetOf(const Job& job);
  // Returns rows of its owner, also those of other groups and classes.
  [[nodiscard]] const RowIndexes& RowsOf(const Job& job) { return row_sets_[RowSetOf(job)]; }
  // Returns the rows of a project and of all above it.
  [[nodiscard]] RowIndexes RowsOfProject(uint32_t project) const;
  [[nodiscard]] uint32_t NumberOf(RowIndexes rows);
  [[nodiscard]] int64_t ChargeOf(const Job& job) const;
  [[nodiscard]] bool Counts(const Row& row, const Job& job) const;
  [[nodiscard]] int64_t UsedByOthers(const Row& row, const Job& job) const;
  void Charge(const Job& job, uint32_t row_set, int64_t milli_nodes);
  void ChooseAutoClass(const Job& job);
  [[nodiscard]] bool FitsAs(const RowIndexes& rows,
                            const Job& job,
                            int32_t priority,
                            bool guaranteed) const;
  [[nodiscard]] std::optional<int32_t> NearestClass(const Job& job);

  const ClusterState& state_;
  const Fabric& fabric_;
  const Policy& policy_;
  const Instant now_;
  std::vector<Row> rows_;  // that count now; projects first, each kind in the policy's order
  std::vector<std::optional<uint32_t>> row_set_of_;  // by owner, as far as asked for
  std::vector<RowIndexes> row_sets_;
  std::map<uint32_t, RowIndexes> user_rows_;         // by user of ClusterState::owners
  std::vector<std::optional<uint32_t>> project_of_;  // sets of rows of projects alone, the same way
  std::map<JobId, int64_t> charged_;     // jobs that are counted, with what they count for
  std::map<JobId, Standing> standing_;   // of live jobs that have rows
  std::map<JobId, int32_t> auto_class_;  // of `auto` jobs that a row gives a class
  Instant next_change_ = Instant::Never();
};

}  // namespace tide
