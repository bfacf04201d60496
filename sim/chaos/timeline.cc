#include "sim/chaos/timeline.h"

#include <algorithm>
#include <utility>

namespace tide::chaos {

bool Timeline::IsLater(const Entry& a, const Entry& b) {
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

void Timeline::After(Duration wait, Action action) {
  heap_.push_back({now_ + std::max(wait, Duration()), next_order_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), IsLater);
}

bool Timeline::DoNext() {
  if (heap_.empty()) {
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), IsLater);
  const Entry next = std::move(heap_.back());
  heap_.pop_back();
  now_ = next.at;
  next.action();
  return true;
}

}  // namespace tide::chaos
