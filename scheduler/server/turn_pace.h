#pragma once
// How often the loop takes a turn for requests that may wait. A turn costs a commit, a delta of the
// view and a message to every watcher, whether it brings one report or a hundred: thousands of
// short jobs, whose reports come one by one, otherwise pay for three turns each. Some turns in
// quick succession are free, so that a job alone in a quiet cluster is not held up.
//
// Threads: the loop thread only.

#include <algorithm>
#include <cstdint>

namespace tide {

class TurnPace {
 public:
  //   now_ns, everywhere: of CLOCK_MONOTONIC.
  // Returns how long patient requests wait for more of their kind, in ns; 0 = their turn may begin.
  [[nodiscard]] int64_t WaitNs(int64_t now_ns) const {
    return std::max<int64_t>(0, paid_until_ns_ - kAtOnce * kEveryNs - now_ns);
  }
  // Counts a turn, whatever it was for. Many that did not wait put the next one that does off by
  // one interval at most.
  void Count(int64_t now_ns) {
    paid_until_ns_ =
        std::min(std::max(paid_until_ns_, now_ns) + kEveryNs, now_ns + (kAtOnce + 1) * kEveryNs);
  }

 private:
  static constexpr int64_t kEveryNs = 15'000'000;
  static constexpr int64_t kAtOnce = 12;

  int64_t paid_until_ns_ = 0;
};

}  // namespace tide
