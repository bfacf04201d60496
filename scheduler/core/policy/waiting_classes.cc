#include "scheduler/core/policy/waiting_classes.h"

#include <algorithm>
#include <iterator>

namespace tide {

WaitingClasses::WaitingClasses(const ClusterState& state,
                               const Policy& policy,
                               const Shares& shares,
                               const Quotas& quotas)
    : policy_(policy), shares_(shares) {
  for (const auto& [key, queue] : state.queue.queues()) {
    const bool is_auto = key.priority == kAutoPriority && !policy_.quotas.empty();
    if (is_auto) {
      for (const WaitingJob& job : queue.InOrder()) {
        Move(quotas, key.owner, job, state.jobs.at(job.id));
      }
      continue;
    }
    // Only what has run sinks to a lower class.
    const std::vector<WaitingJob> others = policy_.demotions.contains(key.priority)
                                               ? queue.InOrderButAlike()
                                               : std::vector<WaitingJob>();
    const bool sinks = std::ranges::any_of(others, &WaitingJob::has_run);
    for (size_t i = 0; sinks && i < others.size(); ++i) {
      Move(quotas, key.owner, others[i], state.jobs.at(others[i].id));
    }
    Add(key, queue, !sinks);
  }
  for (auto& [key, jobs] : moved_) {
    std::ranges::sort(jobs, ComesBefore);
    MergeIn(key, jobs);
  }
}

void WaitingClasses::Move(const Quotas& quotas, uint32_t owner, WaitingJob job, const Job& opened) {
  job.plain = false;  // quotas look at the class it asked for, too
  moved_[{quotas.ClassOf(opened), owner}].push_back(job);
}

void WaitingClasses::Add(const WaitingJobs::Key& key, const OwnerQueue& queue, bool all) {
  OwnerJobs jobs;
  jobs.owner = key.owner;
  jobs.alike = queue.alike.empty() ? nullptr : &queue.alike;
  jobs.varied = !all || queue.varied.empty() ? nullptr : &queue.varied;
  jobs.singles = !all || queue.singles.empty() ? nullptr : &queue.singles;
  jobs.use = shares_.UseOf(key.owner);
  jobs.after_fault = all && queue.after_fault > 0;
  if (jobs.alike != nullptr || jobs.varied != nullptr || jobs.singles != nullptr) {
    classes_[key.priority].push_back(jobs);
  }
}

void WaitingClasses::MergeIn(const WaitingJobs::Key& key, const OwnerJobs::Singles& jobs) {
  std::vector<OwnerJobs>& owners = classes_[key.priority];
  const auto place = std::ranges::lower_bound(owners, key.owner, {}, &OwnerJobs::owner);
  if (place == owners.end() || place->owner != key.owner) {
    owners.insert(place,
                  {.owner = key.owner,
                   .singles = &jobs,
                   .use = shares_.UseOf(key.owner),
                   .after_fault = true});
    return;
  }
  place->after_fault = true;
  if (place->singles == nullptr) {
    place->singles = &jobs;
    return;
  }
  OwnerJobs::Singles& both = merged_.emplace_back();
  std::ranges::merge(*place->singles, jobs, std::back_inserter(both), ComesBefore);
  place->singles = &both;
}

}  // namespace tide
