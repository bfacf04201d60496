#include "scheduler/core/policy/order.h"

#include <algorithm>

namespace tide {
namespace {

constexpr int64_t kPathWeightMax = 1'000'000'000;
const std::string kTop;

}  // namespace

Shares::Shares(const ClusterState& state, const Policy& policy, Instant now) : policy_(policy) {
  for (const auto& [owner, account] : state.accounts) {
    const auto& [project, user] = owner;
    const int64_t use = account.UseAt(now, policy.share_half_life);
    users_[{project, user}] = use / PathWeightOf(project);
    own_[project] += use;
    const std::string* at = &project;
    for (int depth = 0; depth < kProjectDepthMax && !at->empty(); ++depth) {
      trees_[*at] += use;
      at = &ParentOf(*at);
    }
  }
}

int64_t Shares::WeightOf(const std::string& project) const {
  const auto it = policy_.projects.find(project);
  return it == policy_.projects.end() ? 1 : std::max<int64_t>(1, it->second.weight);
}

const std::string& Shares::ParentOf(const std::string& project) const {
  const auto it = policy_.projects.find(project);
  return it == policy_.projects.end() ? kTop : it->second.parent;
}

int64_t Shares::PathWeightOf(const std::string& project) const {
  int64_t weight = 1;
  const std::string* at = &project;
  for (int depth = 0; depth < kProjectDepthMax && !at->empty(); ++depth) {
    weight = std::min(kPathWeightMax, weight * std::min(kPathWeightMax, WeightOf(*at)));
    at = &ParentOf(*at);
  }
  return weight;
}

int64_t Shares::UseOf(std::string_view project, std::string_view user) const {
  const auto it = users_.find({project, user});
  return it == users_.end() ? 0 : it->second;
}

int64_t Shares::UseOfTree(const std::string& project) const {
  const auto it = trees_.find(project);
  return it == trees_.end() ? 0 : it->second;
}

int64_t Shares::OwnUseOf(const std::string& project) const {
  const auto it = own_.find(project);
  return it == own_.end() ? 0 : it->second;
}

WaitingOrder::WaitingOrder(const std::vector<OwnerJobs>& owners, const Shares& shares) {
  shares_.emplace_back();  // the root
  // Projects that have jobs, and all above them; by name: ties go to the first one.
  std::map<std::string, size_t> projects;
  std::set<std::string> parents;
  for (const OwnerJobs& owner : owners) {
    const std::string* at = owner.project;
    while (!at->empty() && projects.emplace(*at, 0).second) {
      at = &shares.ParentOf(*at);
      parents.insert(*at);
    }
  }
  for (auto& [name, share] : projects) {
    share = Add(shares.UseOfTree(name), shares.WeightOf(name));
  }
  for (const auto& [name, share] : projects) {
    const std::string& parent = shares.ParentOf(name);
    shares_[share].parent = parent.empty() ? 0 : projects.at(parent);
  }
  std::map<std::string, size_t> homes;  // what the users of a project are below
  for (size_t i = 0; i < owners.size(); ++i) {
    const OwnerJobs& owner = owners[i];
    const auto [home, fresh] = homes.try_emplace(*owner.project, projects.at(*owner.project));
    if (fresh && parents.contains(*owner.project)) {
      const size_t own = Add(shares.OwnUseOf(*owner.project), 1);
      shares_[own].parent = home->second;
      home->second = own;
    }
    Share& user = shares_[Add(owner.use, 1)];
    user.parent = home->second;
    user.jobs = owner.jobs;
    user.first = owner.jobs->front().id;
    user.owner = i;
  }
  for (size_t share = 1; share < shares_.size(); ++share) {
    Insert(share);
  }
}

size_t WaitingOrder::Add(int64_t use, int64_t weight) {
  Share share;
  share.weight = weight;
  share.use = use / weight;
  shares_.push_back(std::move(share));
  return shares_.size() - 1;
}

void WaitingOrder::Insert(size_t share) {
  shares_[shares_[share].parent].order.insert(PlaceOf(share));
}

const WaitingJob* WaitingOrder::Next() {
  if (shares_.front().order.empty()) {
    return nullptr;
  }
  size_t at = 0;
  while (shares_[at].jobs == nullptr) {
    at = std::get<2>(*shares_[at].order.begin());
  }
  user_ = at;
  const WaitingJob* job = &(*shares_[at].jobs)[shares_[at].next++];
  bool done = shares_[at].next == shares_[at].jobs->size();
  while (done && at != 0) {
    Share& parent = shares_[shares_[at].parent];
    parent.order.erase(PlaceOf(at));
    done = parent.order.empty();
    at = shares_[at].parent;
  }
  return job;
}

void WaitingOrder::Charge(int64_t use) {
  for (size_t at = user_; at != 0; at = shares_[at].parent) {
    const bool waits = shares_[shares_[at].parent].order.erase(PlaceOf(at)) > 0;
    shares_[at].use += use / shares_[at].weight;
    if (waits) {
      Insert(at);
    }
  }
}

}  // namespace tide
