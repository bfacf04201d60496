#include "scheduler/core/policy/owner_cursor.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tide {

JobId OwnerJobs::First() const {
  std::tuple<int64_t, JobId> first{INT64_MAX, JobId()};
  if (singles != nullptr) {
    first = {singles->front().rank, singles->front().id};
  }
  if (alike != nullptr) {
    for (const AlikeJobs& each : *alike) {
      first = std::min(first, {0, each.first()});
    }
  }
  return std::get<JobId>(first);
}

void OwnerCursor::Begin(const OwnerJobs& jobs) {
  jobs_ = jobs;
  next_single_ = 0;
  heads_.clear();
  passed_.clear();
  source_ = kSingle;
  if (jobs_.alike != nullptr) {
    heads_.reserve(jobs_.alike->size());
    for (size_t source = 0; source < jobs_.alike->size(); ++source) {
      heads_.push_back({(*jobs_.alike)[source].first(), source, 0});
    }
    std::ranges::make_heap(heads_, ComesAfter);
  }
}

void OwnerCursor::Push(size_t source, size_t place) {
  const AlikeJobs& alike = (*jobs_.alike)[source];
  if (place < alike.size()) {
    heads_.push_back({alike[place].id, source, place});
    std::ranges::push_heap(heads_, ComesAfter);
  }
}

const WaitingJob* OwnerCursor::Next() {
  if (source_ != kSingle) {
    Push(std::exchange(source_, kSingle), next_place_);
  }
  const bool single = jobs_.singles != nullptr && next_single_ < jobs_.singles->size();
  if (heads_.empty() && !single) {
    return nullptr;
  }
  if (single) {
    const WaitingJob& job = (*jobs_.singles)[next_single_];
    if (heads_.empty() || std::tuple(job.rank, job.id) < std::tuple(0, heads_.front().id)) {
      ++next_single_;
      last_ = job;
      return &last_;
    }
  }
  std::ranges::pop_heap(heads_, ComesAfter);
  const Head head = heads_.back();
  heads_.pop_back();
  source_ = head.source;
  next_place_ = head.place + 1;
  last_ = (*jobs_.alike)[head.source][head.place];
  return &last_;
}

void OwnerCursor::PassOver(Instant since) {
  const AlikeJobs& alike = (*jobs_.alike)[source_];
  if (next_place_ == alike.size()) {
    return;
  }
  const size_t beyond = alike.LaterThan(since, next_place_);
  if (beyond > next_place_) {
    next_place_ = beyond;
    passed_.push_back(source_);
  }
}

void OwnerCursor::TakeUp() {
  std::ranges::sort(passed_);
  const auto repeated = std::ranges::unique(passed_);
  passed_.erase(repeated.begin(), repeated.end());
  std::erase_if(heads_,
                [&](const Head& head) { return std::ranges::binary_search(passed_, head.source); });
  std::ranges::make_heap(heads_, ComesAfter);
  for (const size_t source : std::exchange(passed_, {})) {
    const size_t place = (*jobs_.alike)[source].After(last_.rank, last_.id);
    if (source == source_) {
      next_place_ = place;
    } else {
      Push(source, place);
    }
  }
}

}  // namespace tide
