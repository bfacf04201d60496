#pragma once
// When an agent tries the schedulers' addresses again: all of them one after the other, as one
// leads and the others do not listen, and then not before the round has taken its time. An agent
// whose leader is gone thus finds the next one within a round.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tide::rpc {

class RetryRounds {
 public:
  //   addresses: how many there are, at least one
  //   now_ns, everywhere: of CLOCK_MONOTONIC; here when the first one is tried.
  RetryRounds(size_t addresses, int64_t now_ns) : addresses_(addresses), began_ns_(now_ns) {}

  // Counts a try that has failed, or a connection that has ended.
  // Returns how long to wait before the next one, in ns.
  [[nodiscard]] int64_t PauseNs(int64_t now_ns) {
    if (++tried_ < addresses_) {
      return 0;
    }
    tried_ = 0;
    const int64_t pause = std::max<int64_t>(0, began_ns_ + kRoundNs - now_ns);
    began_ns_ = now_ns + pause;
    return pause;
  }

 private:
  static constexpr int64_t kRoundNs = 200'000'000;

  size_t addresses_;
  int64_t began_ns_;
  size_t tried_ = 0;  // in this round
};

}  // namespace tide::rpc
