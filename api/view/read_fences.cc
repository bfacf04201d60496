#include "api/view/read_fences.h"

#include "common/base/time.h"

namespace tide::api {
namespace {

constexpr int64_t kLongestNs = 60'000'000'000;

uint64_t TermOf(const ViewStore& store) {
  const ViewPtr view = store.Get();
  return view == nullptr ? 0 : view->term;
}

}  // namespace

void ReadFences::Note(const ViewStore& store, const std::string& user, uint64_t rev) {
  const uint64_t term = TermOf(store);
  const std::scoped_lock lock(mutex_);
  Fence& fence = fences_[user];
  if (fence.term != term || fence.rev < rev) {
    fence = {rev, term, MonotonicNanos()};
  }
}

bool ReadFences::Await(const ViewStore& store,
                       const std::string& user,
                       std::chrono::milliseconds timeout,
                       int64_t now_ns) {
  Fence fence;
  {
    const std::scoped_lock lock(mutex_);
    const auto noted = fences_.find(user);
    if (noted == fences_.end()) {
      return true;
    }
    fence = noted->second;
  }
  const auto is_over = [&] {
    return store.broken() || TermOf(store) != fence.term || now_ns - fence.noted_ns > kLongestNs;
  };
  const bool shown = is_over() || store.WaitForRev(fence.rev, timeout) || is_over();
  if (shown) {
    const std::scoped_lock lock(mutex_);
    if (const auto noted = fences_.find(user); noted != fences_.end() &&
                                               noted->second.term == fence.term &&
                                               noted->second.rev <= fence.rev) {
      fences_.erase(noted);
    }
  }
  return shown;
}

}  // namespace tide::api
