#pragma once
// How often the loop decides. A decision goes through all jobs that wait; what comes meanwhile, a
// submission or an agent's report, is committed and answered in turns of its own, so that it waits
// for a commit, not for a hundred thousand jobs that wait as before. A decision that changed
// something is never held up: more may follow from it.
//
// Threads: the loop thread only.

#include <algorithm>
#include <cstdint>

namespace tide {

class DecisionPace {
 public:
  //   now_ns, everywhere: of CLOCK_MONOTONIC.
  [[nodiscard]] bool IsDue(int64_t now_ns) const { return now_ns >= due_ns_; }
  // Returns how long until the next decision may be made, in ns.
  [[nodiscard]] int64_t UntilDueNs(int64_t now_ns) const {
    return std::max<int64_t>(0, due_ns_ - now_ns);
  }
  // Counts a decision that was just made.
  //   at_rest: it changed nothing.
  void Count(int64_t took_ns, bool at_rest, int64_t now_ns) {
    due_ns_ = at_rest ? now_ns + std::max(took_ns, std::min(took_ns * kShare, kMostNs)) : now_ns;
  }

 private:
  // Decisions that come to nothing take a tenth of the loop's time, or as much as keeps the next
  // one within 20 ms; half of it where one takes longer than that.
  static constexpr int64_t kShare = 9;
  static constexpr int64_t kMostNs = 20'000'000;

  int64_t due_ns_ = 0;
};

}  // namespace tide
