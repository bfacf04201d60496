#pragma once
// The order in which waiting jobs are looked at (scheduling.md section 2): class, then the project
// and in it the user that used least lately, then first come.

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

// What every owner has used lately, over its project's weight.
class Shares {
 public:
  Shares(const ClusterState& state, const Policy& policy, Instant now);
  // GPU-milliseconds, decayed.
  [[nodiscard]] int64_t UseOf(const Job& job) const;
  [[nodiscard]] int64_t UseOfProject(const std::string& project) const;

 private:
  std::map<OwnerId, int64_t> users_;
  std::map<std::string, int64_t> projects_;
};

// Hands out the jobs of one class, owner by owner. What an owner is given counts at once, so that
// free nodes go to several owners rather than to the first alone.
class WaitingOrder {
 public:
  WaitingOrder(const std::vector<const Job*>& jobs, const Shares& shares);
  // nullptr at the end.
  [[nodiscard]] const Job* Next();
  // The job that came last is going to run: `use` is added to its owner's.
  void Charge(int64_t use);

 private:
  struct User {
    int64_t use = 0;
    std::vector<const Job*> jobs;
    size_t next = 0;
  };
  struct Project {
    int64_t use = 0;
    std::vector<User> users;
    std::set<std::pair<int64_t, size_t>> order;  // of users with jobs left
  };
  std::vector<Project> projects_;
  std::set<std::pair<int64_t, size_t>> order_;  // of projects with jobs left
  size_t project_ = 0;                          // of the job that came last
  size_t user_ = 0;
};

}  // namespace tide
