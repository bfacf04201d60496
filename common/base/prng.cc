#include "common/base/prng.h"

#include "common/base/check.h"

namespace tide {

uint64_t Prng::Next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t Prng::Below(uint64_t bound) {
  TIDE_CHECK(bound > 0, "a range has at least one value");
  return Next() % bound;
}

}  // namespace tide
