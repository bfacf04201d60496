#pragma once
// Why a job waits: codes of a closed list with the numbers behind them. Words are made of them by
// policy/reasons.h, where somebody asks.

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

// Ranked: what is nearest to a start comes last. docs/guide/reasons.md lists them.
enum class ReasonCode : uint8_t {
  kHeldUser,
  kBackoff,
  kPreemptYielded,     // other: the job that it gave its nodes to
  kPreemptInProgress,  // other: the first job that is leaving; count: nodes kept
  kGroupUnknown,
  kCrossZoneBusy,
  kZoneCapacity,      // count: most nodes free in one zone; fits_across: two zones hold it
  kFragmented,        // count: GPUs free in the group; largest: most on one node
  kPreemptProtected,  // other: the job that is safe longest; until: when it is not any more
  kNodesUnhealthy,    // count: nodes out of service
  kOrderAhead,        // other: the first; count: how many
};

struct Reason {
  ReasonCode code = ReasonCode::kZoneCapacity;
  JobId other = {};
  uint32_t count = 0;
  uint32_t largest = 0;
  bool fits_across = false;
  Instant until = {};
  bool operator==(const Reason&) const = default;
};

struct Explanation {
  JobId job;
  std::vector<Reason> reasons;
  bool operator==(const Explanation&) const = default;
};

}  // namespace tide
