#pragma once
// How ranks wait for one another where they share nothing but a folder.

#include <algorithm>
#include <chrono>
#include <thread>

namespace tide::sdk {

// Looks again and again, ever more slowly.
class Nap {
 public:
  void Take() {
    std::this_thread::sleep_for(length_);  // tidy: poll
    length_ = std::min(length_ * 2, kLongest);
  }

 private:
  static constexpr std::chrono::nanoseconds kFirst{500'000};
  static constexpr std::chrono::nanoseconds kLongest{20'000'000};

  std::chrono::nanoseconds length_ = kFirst;
};

}  // namespace tide::sdk
