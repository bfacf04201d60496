#include "scheduler/core/policy/owner_cursor.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tide {
namespace {

// Has the first few of some objects fetched.
template <typename T>
void PrefetchFrom(const T* objects, size_t count) {
  constexpr size_t kLine = 64;
  constexpr size_t kLinesMax = 8;
  const auto* memory = static_cast<const char*>(static_cast<const void*>(objects));
  for (size_t at = 0; at < std::min(count * sizeof(T), kLinesMax * kLine); at += kLine) {
    __builtin_prefetch(memory + at);
  }
}

}  // namespace

void OwnerJobs::PrefetchPlaces() const {
  __builtin_prefetch(alike);
  __builtin_prefetch(varied);
  __builtin_prefetch(singles);
}

void OwnerJobs::PrefetchJobs() const {
  if (alike != nullptr) {
    PrefetchFrom(alike->data(), alike->size());
  }
  if (varied != nullptr) {
    PrefetchFrom(varied->data(), varied->size());
  }
}

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
  if (varied != nullptr) {
    for (const VariedJobs& each : *varied) {
      each.Prefetch();
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
  const size_t bundles = Alikes() + (jobs_.varied == nullptr ? 0 : jobs_.varied->size());
  for (size_t source = 0; source < bundles; ++source) {
    const JobId first = OfBundle(source, [](const auto& bundle) { return bundle.first(); });
    if (source >= Alikes()) {
      (*jobs_.varied)[source - Alikes()].Prefetch();
    }
    heads_.push_back({first, source, 0});
  }
  std::ranges::make_heap(heads_, ComesAfter);
}

void OwnerCursor::Push(size_t source, size_t place) {
  const JobId id = OfBundle(source, [&](const auto& bundle) {
    return place == bundle.end() ? JobId() : bundle[place].id;
  });
  if (id != JobId()) {
    heads_.push_back({id, source, place});
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
  OfBundle(head.source, [&](const auto& bundle) {
    next_place_ = bundle.Next(head.place);
    last_ = bundle[head.place];
  });
  return &last_;
}

void OwnerCursor::PassOver(const AnswerReach& reach) {
  const size_t beyond = OfBundle(source_, [&](const auto& bundle) {
    return next_place_ == bundle.end() ? next_place_ : bundle.Beyond(reach, next_place_);
  });
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
    const size_t place =
        OfBundle(source, [&](const auto& bundle) { return bundle.After(last_.rank, last_.id); });
    if (source == source_) {
      next_place_ = place;
    } else {
      Push(source, place);
    }
  }
}

}  // namespace tide
