#pragma once
// Where two zones meet, and what may pass there at a time.

#include <cstdint>
#include <string>

namespace tide {

inline constexpr uint32_t kNoLimit = UINT32_MAX;

struct Boundary {
  std::string first;  // zones, in either order
  std::string second;
  uint32_t jobs_max = kNoLimit;   // jobs that go from the one to the other
  uint32_t pairs_max = kNoLimit;  // pairs of nodes of all of them, were their trees NCCL's
  bool operator==(const Boundary&) const = default;
};

}  // namespace tide
