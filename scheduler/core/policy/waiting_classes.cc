#include "scheduler/core/policy/waiting_classes.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace tide {
namespace {

auto NameOf(const OwnerJobs& owner) {
  return std::tie(*owner.project, *owner.user);
}

}  // namespace

WaitingClasses::WaitingClasses(const ClusterState& state,
                               const Policy& policy,
                               const Shares& shares,
                               const Quotas& quotas)
    : policy_(policy), shares_(shares) {
  for (const auto& [key, jobs] : state.queue.buckets()) {
    const auto moves = [&, priority = key.priority](const WaitingJob& job) {
      return MayStandElsewhere(priority, job);
    };
    if (std::ranges::none_of(jobs, moves)) {
      Add(key, jobs);
      continue;
    }
    for (WaitingJob job : jobs) {
      job.plain = false;  // quotas look at the class it asked for, too
      const int32_t priority = quotas.ClassOf(state.jobs.at(job.id));
      moved_[{priority, key.project, key.user}].push_back(job);
    }
  }
  for (auto& [key, jobs] : moved_) {
    std::ranges::sort(jobs, ComesBefore);
    MergeIn(key, jobs);
  }
}

bool WaitingClasses::MayStandElsewhere(int32_t priority, const WaitingJob& job) const {
  return (priority == kAutoPriority && !policy_.quotas.empty()) ||
         (job.has_run && policy_.demotions.contains(priority));
}

void WaitingClasses::Add(const WaitingJobs::Key& owner, const WaitingJobs::Bucket& jobs) {
  classes_[owner.priority].push_back(
      {&owner.project, &owner.user, &jobs, shares_.UseOf(owner.project, owner.user)});
}

void WaitingClasses::MergeIn(const WaitingJobs::Key& owner, const WaitingJobs::Bucket& jobs) {
  std::vector<OwnerJobs>& owners = classes_[owner.priority];
  const auto name = std::tie(owner.project, owner.user);
  const auto place = std::ranges::lower_bound(owners, name, {}, NameOf);
  if (place == owners.end() || NameOf(*place) != name) {
    owners.insert(place,
                  {&owner.project, &owner.user, &jobs, shares_.UseOf(owner.project, owner.user)});
    return;
  }
  WaitingJobs::Bucket& both = merged_.emplace_back();
  std::ranges::merge(*place->jobs, jobs, std::back_inserter(both), ComesBefore);
  place->jobs = &both;
}

}  // namespace tide
