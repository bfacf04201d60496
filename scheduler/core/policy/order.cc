#include "scheduler/core/policy/order.h"

#include <algorithm>

namespace tide {

Shares::Shares(const ClusterState& state, const Policy& policy, Instant now) {
  for (const auto& [owner, account] : state.accounts) {
    const auto weight = policy.project_weights.find(owner.first);
    const int64_t by =
        weight == policy.project_weights.end() ? 1 : std::max<int64_t>(1, weight->second);
    const int64_t use = account.UseAt(now, policy.share_half_life) / by;
    users_[{owner.first, owner.second}] = use;
    projects_[owner.first] += use;
  }
}

int64_t Shares::UseOf(const Job& job) const {
  const auto it = users_.find({job.spec.project, job.user});
  return it == users_.end() ? 0 : it->second;
}

int64_t Shares::UseOfProject(const std::string& project) const {
  const auto it = projects_.find(project);
  return it == projects_.end() ? 0 : it->second;
}

WaitingOrder::WaitingOrder(const std::vector<const Job*>& jobs, const Shares& shares) {
  std::map<std::string, std::map<std::string, User>> tree;
  for (const Job* job : jobs) {  // ascending ids: first come first
    User& user = tree[job->spec.project][job->user];
    if (user.jobs.empty()) {
      user.use = shares.UseOf(*job);
    }
    user.jobs.push_back(job);
  }
  for (auto& [name, users] : tree) {
    Project& project = projects_.emplace_back();
    project.use = shares.UseOfProject(name);
    for (auto& [user_name, user] : users) {
      project.order.emplace(user.use, project.users.size());
      project.users.push_back(std::move(user));
    }
    order_.emplace(project.use, projects_.size() - 1);
  }
}

const Job* WaitingOrder::Next() {
  if (order_.empty()) {
    return nullptr;
  }
  project_ = order_.begin()->second;
  Project& project = projects_[project_];
  user_ = project.order.begin()->second;
  User& user = project.users[user_];
  const Job* job = user.jobs[user.next++];
  if (user.next == user.jobs.size()) {
    project.order.erase({user.use, user_});
    if (project.order.empty()) {
      order_.erase({project.use, project_});
    }
  }
  return job;
}

void WaitingOrder::Charge(int64_t use) {
  Project& project = projects_[project_];
  User& user = project.users[user_];
  if (project.order.erase({user.use, user_}) > 0) {
    project.order.emplace(user.use + use, user_);
  }
  user.use += use;
  if (order_.erase({project.use, project_}) > 0) {
    order_.emplace(project.use + use, project_);
  }
  project.use += use;
}

}  // namespace tide
