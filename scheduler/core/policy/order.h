#pragma once
// The order in which waiting jobs are looked at (scheduling.md section 2): class, then down the
// tree of projects the one whose jobs used least over its weight, in it the user that used least
// lately, then first come.

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// Who a job's use is charged to.
struct OwnerId {
  std::string project;
  std::string user;
  auto operator<=>(const OwnerId&) const = default;
};

// What every owner and project has used lately.
class Shares {
 public:
  Shares(const ClusterState& state, const Policy& policy, Instant now);
  // GPU-milliseconds, decayed, over the weights of its project and of all above it multiplied:
  // owners anywhere in the tree are compared by it.
  [[nodiscard]] int64_t UseOf(const Job& job) const;
  // Of the project with all below it, and of its own jobs alone. GPU-milliseconds, decayed.
  [[nodiscard]] int64_t UseOfTree(const std::string& project) const;
  [[nodiscard]] int64_t OwnUseOf(const std::string& project) const;

  [[nodiscard]] int64_t WeightOf(const std::string& project) const;
  // "" at the top.
  [[nodiscard]] const std::string& ParentOf(const std::string& project) const;

 private:
  [[nodiscard]] int64_t PathWeightOf(const std::string& project) const;

  const Policy& policy_;
  std::map<OwnerId, int64_t> users_;
  std::map<std::string, int64_t> trees_;
  std::map<std::string, int64_t> own_;
};

// Hands out the jobs of one class, owner by owner. What an owner is given counts at once, so that
// free nodes go to several owners rather than to the first alone.
//   Cost of Next and Charge: O(depth of the tree × log owners).
class WaitingOrder {
 public:
  WaitingOrder(const std::vector<const Job*>& jobs, const Shares& shares);
  // nullptr at the end.
  [[nodiscard]] const Job* Next();
  // The job that came last is going to run: `use` is added to its owner's and all projects' above.
  void Charge(int64_t use);

 private:
  // A project, a user, or what a project with sub-projects runs of its own: that stands beside
  // them with weight 1. The root is the first.
  struct Share {
    size_t parent = 0;
    int64_t weight = 1;
    int64_t use = 0;                             // over weight
    std::set<std::pair<int64_t, size_t>> order;  // of what lies below and has jobs left
    std::vector<const Job*> jobs;                // of a user
    size_t next = 0;
  };

  size_t Add(int64_t use, int64_t weight);
  void Insert(size_t share);

  std::vector<Share> shares_;
  size_t user_ = 0;  // of the job that came last
};

}  // namespace tide
