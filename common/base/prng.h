#pragma once
// SplitMix64: small, seedable, the same on every machine. Not for secrets.

#include <cstdint>

namespace tide {

class Prng {
 public:
  explicit Prng(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t state_;
};

}  // namespace tide
