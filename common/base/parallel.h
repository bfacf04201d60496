#pragma once
// The processors of this machine, for work that is long, pure and in many parts.

#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace tide {

// Returns how many parts may be worked on at once: two at least, few enough that what they hold in
// memory stays small.
[[nodiscard]] inline size_t ParallelParts() {
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 2, 8);
}

// Policy of std::async: where no thread can be had, the work is done by whoever waits for it.
inline constexpr auto kInParallel = std::launch::async | std::launch::deferred;

// Calls `work(begin, end)` for parts of [0, count) at the same time, and returns when all are done.
//   work: must neither throw nor touch what another part touches.
template <typename Work>
void InParallel(size_t count, const Work& work) {
  const size_t parts = std::min(count, ParallelParts());
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < parts; ++i) {
    others.push_back(std::async(
        kInParallel,
        [&work, begin = count * i / parts, end = count * (i + 1) / parts] { work(begin, end); }));
  }
  if (parts > 0) {
    work(size_t{0}, count / parts);
  }
  for (std::future<void>& other : others) {
    other.get();
  }
}

}  // namespace tide
