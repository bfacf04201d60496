#include "scheduler/core/policy/order.h"

#include <algorithm>

namespace tide {
namespace {

constexpr int64_t kPathWeightMax = 1'000'000'000;
const std::string kTop;

}  // namespace

Shares::Shares(const ClusterState& state, const Policy& policy, Instant now)
    : policy_(policy), owners_(state.owners), own_(state.owners.projects().size()) {
  weights_.reserve(own_.size());
  for (uint32_t project = 0; project < own_.size(); ++project) {
    weights_.push_back(WeightOfPath(owners_.projects()[project]));
  }
  uses_.reserve(owners_.size());
  for (uint32_t owner = 0; owner < owners_.size(); ++owner) {
    const int64_t use = state.accounts[owner].UseAt(now, policy.share_half_life);
    uses_.push_back(use / PathWeightOf(owner));
    own_[owners_.ProjectNumber(owner)] += use;
  }
  for (uint32_t project = 0; project < own_.size(); ++project) {
    const std::string* at = &owners_.projects()[project];
    for (int depth = 0; depth < kProjectDepthMax && !at->empty(); ++depth) {
      trees_[*at] += own_[project];
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

int64_t Shares::WeightOfPath(const std::string& project) const {
  int64_t weight = 1;
  const std::string* at = &project;
  for (int depth = 0; depth < kProjectDepthMax && !at->empty(); ++depth) {
    weight = std::min(kPathWeightMax, weight * std::min(kPathWeightMax, WeightOf(*at)));
    at = &ParentOf(*at);
  }
  return weight;
}

int64_t Shares::UseOf(const Job& job) const {
  const auto owner = owners_.Find(job.spec->project, job.user);
  return owner ? UseOf(*owner) : 0;
}

int64_t Shares::UseOfTree(const std::string& project) const {
  const auto it = trees_.find(project);
  return it == trees_.end() ? 0 : it->second;
}

int64_t Shares::OwnUseOf(const std::string& project) const {
  const auto number = owners_.projects().Find(project);
  return number ? own_[*number] : 0;
}

WaitingOrder::WaitingOrder(const std::vector<OwnerJobs>& owners, const Shares& shares)
    : owners_(owners) {
  shares_.emplace_back();  // the root
  // Projects that have jobs, and all above them; by name: ties go to the first one.
  const Owners& names = shares.owners();
  std::map<std::string, size_t> projects;
  std::set<std::string> parents;
  std::vector<bool> seen(names.projects().size());
  for (const OwnerJobs& owner : owners) {
    const uint32_t project = names.ProjectNumber(owner.owner);
    const std::string* at = &names.projects()[project];
    while (!seen[project] && !at->empty() && projects.emplace(*at, 0).second) {
      at = &shares.ParentOf(*at);
      parents.insert(*at);
    }
    seen[project] = true;
  }
  for (auto& [name, share] : projects) {
    share = Add(shares.UseOfTree(name), shares.WeightOf(name));
  }
  for (const auto& [name, share] : projects) {
    const std::string& parent = shares.ParentOf(name);
    shares_[share].parent = parent.empty() ? 0 : projects.at(parent);
  }
  const auto home_in = [&](const std::string& project) {
    const size_t share = projects.at(project);
    if (!parents.contains(project)) {
      return share;
    }
    const size_t own = Add(shares.OwnUseOf(project), 1);
    shares_[own].parent = share;
    return own;
  };
  std::vector<size_t> homes(names.projects().size());  // what the users of a project are below
  for (size_t i = 0; i < owners.size(); ++i) {
    const OwnerJobs& owner = owners[i];
    size_t& home = homes[names.ProjectNumber(owner.owner)];
    if (home == 0) {
      home = home_in(names.Project(owner.owner));
    }
    Share& user = shares_[Add(owner.use, 1)];
    user.parent = home;
    user.is_user = true;
    user.first = owner.First();
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
  shares_[shares_[share].parent].order.Insert(PlaceOf(share));
}

void WaitingOrder::Drop(size_t share) {
  size_t at = share;
  bool done = true;
  while (done && at != 0) {
    Share& parent = shares_[shares_[at].parent];
    parent.order.Erase(PlaceOf(at));
    done = parent.order.empty();
    at = shares_[at].parent;
  }
}

const WaitingJob* WaitingOrder::Next() {
  while (!shares_.front().order.empty()) {
    size_t at = 0;
    while (!shares_[at].is_user) {
      const auto& order = shares_[at].order;
      at = std::get<2>(order[order.begin()]);
    }
    if (at != user_) {
      Turn(at);
    }
    if (const WaitingJob* job = jobs_.Next()) {
      return job;
    }
    Drop(at);
    user_ = 0;
  }
  return nullptr;
}

void WaitingOrder::Turn(size_t user) {
  if (user_ != 0) {
    others_.insert_or_assign(user_, std::move(jobs_));
  }
  if (auto left = others_.extract(user)) {
    jobs_ = std::move(left.mapped());
  } else {
    jobs_.Begin(owners_[shares_[user].owner]);
  }
  user_ = user;
  ++turn_;
  PrefetchAfter(user);
}

void WaitingOrder::PrefetchAfter(size_t user) const {
  const auto& order = shares_[shares_[user].parent].order;
  const auto next = order.Next(order.begin());
  const auto jobs_of = [&](const auto& place) -> const OwnerJobs& {
    return owners_[shares_[std::get<size_t>(order[place])].owner];
  };
  if (next == order.end() || !shares_[std::get<size_t>(order[next])].is_user) {
    return;
  }
  jobs_of(next).PrefetchJobs();
  const auto after = order.Next(next);
  if (after != order.end() && shares_[std::get<size_t>(order[after])].is_user) {
    jobs_of(after).PrefetchPlaces();
  }
}

void WaitingOrder::TakeUp() {
  jobs_.TakeUp();
  ++turn_;
}

void WaitingOrder::Charge(int64_t use) {
  TakeUp();
  for (size_t at = user_; at != 0; at = shares_[at].parent) {
    const bool waits = shares_[shares_[at].parent].order.Erase(PlaceOf(at));
    shares_[at].use += use / shares_[at].weight;
    if (waits) {
      Insert(at);
    }
  }
}

}  // namespace tide
