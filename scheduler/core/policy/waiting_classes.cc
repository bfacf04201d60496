#include "scheduler/core/policy/waiting_classes.h"

#include <algorithm>
#include <iterator>

namespace tide {

WaitingClasses::WaitingClasses(const ClusterState& state,
                               const Policy& policy,
                               const Shares& shares,
                               const Quotas& quotas)
    : policy_(policy), shares_(shares) {
  for (const auto& [key, jobs] : state.queue.buckets()) {
    if (!MayStandElsewhere(key.priority, jobs)) {
      Add(key, jobs);
      continue;
    }
    for (WaitingJob job : jobs) {
      job.plain = false;  // quotas look at the class it asked for, too
      const int32_t priority = quotas.ClassOf(state.jobs.at(job.id));
      moved_[{priority, key.owner}].push_back(job);
    }
  }
  for (auto& [key, jobs] : moved_) {
    std::ranges::sort(jobs, ComesBefore);
    MergeIn(key, jobs);
  }
}

bool WaitingClasses::MayStandElsewhere(int32_t priority, const WaitingJobs::Bucket& jobs) const {
  return (priority == kAutoPriority && !policy_.quotas.empty()) ||
         (policy_.demotions.contains(priority) && std::ranges::any_of(jobs, &WaitingJob::has_run));
}

void WaitingClasses::Add(const WaitingJobs::Key& key, const WaitingJobs::Bucket& jobs) {
  classes_[key.priority].push_back({key.owner, &jobs, shares_.UseOf(key.owner)});
}

void WaitingClasses::MergeIn(const WaitingJobs::Key& key, const WaitingJobs::Bucket& jobs) {
  std::vector<OwnerJobs>& owners = classes_[key.priority];
  const auto place = std::ranges::lower_bound(owners, key.owner, {}, &OwnerJobs::owner);
  if (place == owners.end() || place->owner != key.owner) {
    owners.insert(place, {key.owner, &jobs, shares_.UseOf(key.owner)});
    return;
  }
  WaitingJobs::Bucket& both = merged_.emplace_back();
  std::ranges::merge(*place->jobs, jobs, std::back_inserter(both), ComesBefore);
  place->jobs = &both;
}

}  // namespace tide
