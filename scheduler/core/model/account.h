#pragma once
// What an owner has used lately: a sum that halves every half-life, so that who has used little
// goes first. Integers throughout: the same history gives the same numbers on every machine.

#include <cstdint>

#include "common/base/time.h"

namespace tide {

// 2^(-elapsed / half_life), as a fraction of kDecayOne.
inline constexpr int64_t kDecayOne = int64_t{1} << 31U;
[[nodiscard]] int64_t Decay(Duration elapsed, Duration half_life);

// Half-lives after which what was used counts no more: less than a thousandth of it is left.
inline constexpr int64_t kHalfLivesKept = 10;

struct Account {
  int64_t use_ms = 0;  // GPU-milliseconds, decayed to as_of
  int64_t rate = 0;    // GPUs in use since
  Instant as_of;
  bool operator==(const Account&) const = default;

  // Use decayed to `now`, with what was used since as_of; nothing after kHalfLivesKept of no use.
  // now >= as_of.
  [[nodiscard]] int64_t UseAt(Instant now, Duration half_life) const {
    const bool idle = rate == 0 && (use_ms == 0 || now - as_of >= half_life * kHalfLivesKept);
    return idle ? 0 : DecayedAt(now, half_life);
  }
  // From `now` on `gpus` more (or fewer) are in use.
  void Change(int64_t gpus, Instant now, Duration half_life);
  // What another account has counted is counted here too: decay is linear, so that the sum is as
  // if one account had seen both, but for what is forgotten. As of the later of the two.
  void Add(const Account& other, Duration half_life);

 private:
  [[nodiscard]] int64_t DecayedAt(Instant now, Duration half_life) const;
};

}  // namespace tide
