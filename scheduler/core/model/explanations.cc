#include "scheduler/core/model/explanations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tide {

size_t AheadList::CountBefore(JobId job, uint64_t turn, size_t from) const {
  // Turns rise, and in one of them jobs come in the order of their owner.
  const auto begin = jobs_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end = std::partition_point(begin, jobs_.end(), [&](const AheadJob& each) {
    return each.turn <= turn && std::tuple(each.rank, each.id) <= std::tuple(0, job);
  });
  return static_cast<size_t>(end - jobs_.begin());
}

const ReasonList& WaitingReasons::List(size_t count) {
  if (counted_ != count) {
    counted_ = count;
    std::vector<Reason> all = own_;
    if (count > 0) {
      all.push_back({.code = ReasonCode::kOrderAhead,
                     .other = ahead_->front(),
                     .count = static_cast<uint32_t>(count)});
    }
    list_ = ReasonList(std::move(all));
  }
  return list_;
}

void Explanations::AddBundle(const WaitingJobs::Key& queue,
                             const Bundle& bundle,
                             JobId first,
                             std::shared_ptr<WaitingReasons> reasons,
                             uint64_t turn) {
  const size_t ahead = reasons->CountAhead();
  alike_.push_back({queue, bundle, first, turn, ahead, std::move(reasons)});
  sorted_ = false;
}

void Explanations::Sort() const {
  if (!std::exchange(sorted_, true)) {
    std::ranges::sort(singles_, {}, &Explanation::job);
    std::ranges::sort(alike_, {}, &Alike::Place);
  }
}

ReasonList Explanations::ListFor(const Alike& alike, JobId job) {
  WaitingReasons& reasons = *alike.reasons;
  return reasons.List(
      reasons.ahead() == nullptr ? 0 : reasons.ahead()->CountBefore(job, alike.turn, alike.ahead));
}

const Explanations::Alike* Explanations::Find(const WaitingJobs::Key& queue,
                                              const Bundle& bundle,
                                              JobId job) const {
  if (job >= end_) {
    return nullptr;
  }
  const auto after =
      std::ranges::upper_bound(alike_, std::tuple(queue, bundle, job), {}, &Alike::Place);
  if (after == alike_.begin()) {
    return nullptr;
  }
  const Alike& alike = *std::prev(after);
  return alike.queue == queue && alike.bundle == bundle ? &alike : nullptr;
}

std::optional<ReasonList> Explanations::Of(const ClusterState& state, JobId job) const {
  Sort();
  const auto single = std::ranges::lower_bound(singles_, job, {}, &Explanation::job);
  if (single != singles_.end() && single->job == job) {
    return single->reasons;
  }
  const Job* asked = alike_.empty() ? nullptr : state.FindJob(job);
  if (asked == nullptr) {
    return std::nullopt;
  }
  const auto owner = state.owners.Find(asked->spec->project, asked->user);
  const auto bundle = owner ? state.queue.BundleOf(*asked, *owner) : std::nullopt;
  const Alike* alike = bundle ? Find({asked->spec->priority, *owner}, *bundle, job) : nullptr;
  return alike == nullptr ? std::nullopt : std::optional(ListFor(*alike, job));
}

template <typename Jobs>
void Explanations::AddAll(const WaitingJobs::Key& queue,
                          const Bundle& bundle,
                          const Jobs& jobs,
                          std::vector<Explanation>& all) const {
  const Alike* alike = nullptr;
  JobId until;  // the next of the jobs that is told something else
  for (size_t place = 0; place != jobs.end(); place = jobs.Next(place)) {
    const JobId job = jobs[place].id;
    if (job >= until) {
      alike = Find(queue, bundle, job);
      const Alike* next = alike == nullptr ? nullptr : alike + 1;
      const bool ends = next != nullptr && next != alike_.data() + alike_.size() &&
                        next->queue == queue && next->bundle == bundle;
      until =
          ends ? std::min(next->from, end_) : (alike == nullptr ? JobId(job.value() + 1) : end_);
    }
    if (alike != nullptr && job < end_) {
      all.push_back({job, ListFor(*alike, job)});
    }
  }
}

std::vector<Explanation> Explanations::All(const ClusterState& state) const {
  Sort();
  if (alike_.empty()) {
    return singles_;
  }
  std::vector<Explanation> alike;
  for (const auto& [key, queue] : state.queue.queues()) {
    for (const AlikeJobs& jobs : queue.alike) {
      AddAll(key, {jobs.shape(), false}, jobs, alike);
    }
    for (const VariedJobs& jobs : queue.varied) {
      AddAll(key, {jobs.shape(), true}, jobs, alike);
    }
  }
  std::ranges::sort(alike, {}, &Explanation::job);
  std::vector<Explanation> all;
  all.reserve(singles_.size() + alike.size());
  // Reasons of one job alone go before those of its likes.
  std::ranges::set_union(
      singles_, alike, std::back_inserter(all), {}, &Explanation::job, &Explanation::job);
  return all;
}

}  // namespace tide
