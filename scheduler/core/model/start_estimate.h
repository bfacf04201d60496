#pragma once
// When a waiting job will start, as a range. Made by policy/estimate.h; read by people, by no
// decision.

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

// Why there is no estimate.
enum class NoEstimate : uint8_t {
  kNone,      // there is one
  kHeld,      // until its user lets it go on
  kGroup,     // no node is of its group
  kCapacity,  // fewer nodes take work than it wants, where it may be
  kQuota,     // over a limit that has no end
  kTooFar,    // beyond kEstimateHorizon
  kUnsure,    // Tide made a mistake
};

inline constexpr Duration kEstimateHorizon = Duration::Minutes(60 * 24 * 90);

// What the likely start rests on: how many others it waits for, by what is known of their ends.
struct EstimateBasis {
  uint32_t limits = 0;   // stated max_runtimes
  uint32_t history = 0;  // past run times of like jobs
  uint32_t elapsed = 0;  // how long they have run so far, and nothing else
  uint32_t turns = 0;    // they give their nodes back before their end: lower classes, used slices
  uint32_t ahead = 0;    // jobs that wait themselves
  // The last job that gives way because this one was slowed down more, and how far it will have
  // been by then, in thousandths; 0 = there is none.
  JobId turn_from = {};
  int64_t turn_slowdown = 0;
  bool operator==(const EstimateBasis&) const = default;
};

// earliest <= likely <= latest, none before the time of asking; all unset without an estimate.
struct StartEstimate {
  JobId job;
  Instant earliest;
  Instant likely;
  Instant latest;
  NoEstimate none = NoEstimate::kNone;
  EstimateBasis basis;
  bool operator==(const StartEstimate&) const = default;
};

// The same in words, made by policy/estimate_text.h. Either `basis` or `none` is empty.
struct EstimateText {
  Instant earliest;
  Instant likely;
  Instant latest;
  std::string basis;  // "from 3 max_runtimes and 12 past run times"
  std::string none;   // why there is no estimate
  bool operator==(const EstimateText&) const = default;
};

}  // namespace tide
