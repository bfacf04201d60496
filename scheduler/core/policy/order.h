#pragma once
// The order in which waiting jobs are looked at (scheduling.md section 2): class, then down the
// tree of projects the one whose jobs used least over its weight, in it the user that used least
// lately, then as the user has ordered them, then first come.

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/sorted_blocks.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/owner_cursor.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// What every owner and project has used lately.
class Shares {
 public:
  Shares(const ClusterState& state, const Policy& policy, Instant now);
  // GPU-milliseconds, decayed, over the weights of its project and of all above it multiplied:
  // owners anywhere in the tree are compared by it.
  //   owner: of ClusterState::owners.
  [[nodiscard]] int64_t UseOf(uint32_t owner) const { return uses_[owner]; }
  [[nodiscard]] int64_t UseOf(const Job& job) const;
  // Of the project with all below it, and of its own jobs alone. GPU-milliseconds, decayed.
  [[nodiscard]] int64_t UseOfTree(const std::string& project) const;
  [[nodiscard]] int64_t OwnUseOf(const std::string& project) const;

  [[nodiscard]] int64_t WeightOf(const std::string& project) const;
  // With all above it, multiplied.
  [[nodiscard]] int64_t PathWeightOf(uint32_t owner) const {
    return weights_[owners_.ProjectNumber(owner)];
  }
  // "" at the top.
  [[nodiscard]] const std::string& ParentOf(const std::string& project) const;
  [[nodiscard]] const Owners& owners() const { return owners_; }

 private:
  [[nodiscard]] int64_t WeightOfPath(const std::string& project) const;

  const Policy& policy_;
  const Owners& owners_;
  std::vector<int64_t> weights_;  // of paths, by project
  std::vector<int64_t> uses_;     // by owner
  std::vector<int64_t> own_;      // by project
  std::map<std::string, int64_t> trees_;
};

// Hands out the jobs of one class, owner by owner. What an owner is given counts at once, so that
// free nodes go to several owners rather than to the first alone.
//   Cost of Next and Charge: O(depth of the tree × log owners).
class WaitingOrder {
 public:
  // What `owners` point to must outlive the order.
  WaitingOrder(const std::vector<OwnerJobs>& owners, const Shares& shares);
  // nullptr at the end. What it points to stays until the next call.
  [[nodiscard]] const WaitingJob* Next();
  // Of the job that came last: index into `owners`.
  [[nodiscard]] size_t owner() const { return shares_[user_].owner; }
  // Counts the rows of jobs of one owner that were handed out with no other's between them, nor
  // with a change to what they are told.
  [[nodiscard]] uint64_t turn() const { return turn_; }
  // The job that came last is going to run: `use` is added to its owner's and all projects' above.
  // Jobs that were passed over are taken up again.
  void Charge(int64_t use);
  // Forward to OwnerCursor, for the job that came last.
  [[nodiscard]] std::optional<Bundle> bundle() const { return jobs_.bundle(); }
  void PassOver(const AnswerReach& reach) { jobs_.PassOver(reach); }
  void TakeUp();

 private:
  // A project, a user, or what a project with sub-projects runs of its own: that stands beside
  // them with weight 1. The root is the first.
  struct Share {
    size_t parent = 0;
    int64_t weight = 1;
    int64_t use = 0;  // over weight
    JobId first;      // of a user: ties go to whose first job came first
    SortedBlocks<std::tuple<int64_t, JobId, size_t>> order;  // of what lies below and has jobs left
    bool is_user = false;
    size_t owner = 0;
  };
  // Its place among those beside it.
  [[nodiscard]] std::tuple<int64_t, JobId, size_t> PlaceOf(size_t share) const {
    return {shares_[share].use, shares_[share].first, share};
  }

  size_t Add(int64_t use, int64_t weight);
  void Insert(size_t share);

  // Goes on with the jobs of a user.
  void Turn(size_t user);
  // Has the memory of those users fetched whose turn is likely to be next.
  void PrefetchAfter(size_t user) const;
  // Drops it, and what lies above it and has nothing else left.
  void Drop(size_t share);

  const std::vector<OwnerJobs>& owners_;
  std::vector<Share> shares_;
  size_t user_ = 0;                       // of the job that came last
  OwnerCursor jobs_;                      // of that user
  std::map<size_t, OwnerCursor> others_;  // of users who had to make way for others
  uint64_t turn_ = 0;
};

}  // namespace tide
