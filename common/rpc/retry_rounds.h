#pragma once
// When an agent tries the schedulers' addresses again: all of them one after the other, as one
// leads and the others do not listen, and then not before the round has taken its time. An agent
// whose leader is gone thus finds the next one within a round. Rounds are drawn: ten thousand
// agents that have lost their leader in one moment do not come back in one moment.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/prng.h"

namespace tide::rpc {

class RetryRounds {
 public:
  //   addresses: how many there are, at least one
  //   now_ns, everywhere: of CLOCK_MONOTONIC; here when the first one is tried.
  //   seed: another one for each agent.
  RetryRounds(size_t addresses, int64_t now_ns, uint64_t seed)
      : addresses_(addresses), began_ns_(now_ns), prng_(seed) {}

  // Counts a try that has failed, or a connection that has ended.
  // Returns how long to wait before the next one, in ns.
  [[nodiscard]] int64_t PauseNs(int64_t now_ns) {
    if (++tried_ < addresses_) {
      return 0;
    }
    tried_ = 0;
    const auto round = kLeastNs + static_cast<int64_t>(prng_.Below(kMostNs - kLeastNs));
    const int64_t pause = std::max<int64_t>(0, began_ns_ + round - now_ns);
    began_ns_ = now_ns + pause;
    return pause;
  }

 private:
  // 200 ms on average.
  static constexpr int64_t kLeastNs = 100'000'000;
  static constexpr int64_t kMostNs = 300'000'000;

  size_t addresses_;
  int64_t began_ns_;
  size_t tried_ = 0;  // in this round
  Prng prng_;
};

}  // namespace tide::rpc
