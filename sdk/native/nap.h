#pragma once
// How ranks wait for one another where they share nothing but a folder.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace tide::sdk {

// Looks again and again, ever more slowly.
class Nap {
 public:
  Nap() = default;
  // ranks: how many look at the same file system. At a thousand all of them together ask it no
  // more than a few thousand times a second.
  explicit Nap(int64_t ranks) : longest_(kLongest * std::max<int64_t>(1, ranks / kRanksAtOnce)) {}

  void Take() {
    std::this_thread::sleep_for(length_);  // tidy: poll
    length_ = std::min(length_ * 2, longest_);
  }

 private:
  static constexpr std::chrono::nanoseconds kFirst{500'000};
  static constexpr std::chrono::nanoseconds kLongest{20'000'000};
  static constexpr int64_t kRanksAtOnce = 64;

  std::chrono::nanoseconds longest_ = kLongest;
  std::chrono::nanoseconds length_ = kFirst;
};

}  // namespace tide::sdk
