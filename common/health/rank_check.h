#pragma once
// Which rank of a job is the odd one: a gang stands still as soon as one of its ranks does, and all
// the others wait for it in a collective. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"

namespace tide::health {

// Phases as docs/rank-protocol.md numbers them.
enum class RankPhase : uint32_t {
  kUnattached = 0,
  kTraining = 1,
  kWaiting = 2,
  kSaving = 3,
  kAcknowledged = 4,
  kEvaluating = 5,
  kDone = 6,
};

// "training", "waiting"; "" for a number that is no phase.
[[nodiscard]] std::string_view RankPhaseName(uint32_t phase);

// One look at a rank.
struct RankTick {
  uint32_t rank = 0;  // in the job
  int64_t step = -1;  // -1 = not known
  Duration age = {};  // since the end of its last step; 0 = it has not come to the end of one
  uint32_t phase = 0;
  Duration step_time = {};  // that nearly all of its last steps stay within; 0 = not known
  Duration pace = {};       // median of the last few; 0 = not known
  Duration compute = {};    // median of what it computed in them before it waited; 0 = not known
  char state = 0;           // of its process, as /proc has it: 'R', 'S', 'D', 'T'; 0 = not known
  std::string place =
      {};  // "all_reduce (distributed_c10d.py:2050)": where it stands; "" = not known
  std::vector<std::string> addresses = {};   // of its connections
  std::vector<std::string> unanswered = {};  // of peers that do not acknowledge what it sends
  bool operator==(const RankTick&) const = default;
};

struct OddRank {
  uint32_t rank = 0;
  std::string why;  // "its process is stopped (SIGSTOP)", "2 steps behind"
  char state = 0;   // that of its process, where that is why; else 0
  bool operator==(const OddRank&) const = default;
};

struct RanksVerdict {
  bool stalled = false;      // no rank gets on, for longer than any pause that was expected
  Duration silence;          // since the last rank came to the end of a step
  Duration limit;            // after which a silence counts as a stall
  Duration step_time;        // median
  bool in_section = false;   // a rank evaluates or saves
  std::vector<OddRank> odd;  // by rank; none: no one stands out
};

// Silences of a rank that are no stall: its next step may take twice the time of its usual ones,
// and a collective may have to be tried again.
inline constexpr Duration kStallLeast = Duration::Seconds(15);
inline constexpr Duration kStallMore = Duration::Seconds(5);
// Ranks' connections are looked at once they stand still, which takes a moment. Until then several
// ranks that are behind are not named: a lost message leaves others behind than the link's ends.
inline constexpr Duration kLinksWithin = Duration::Seconds(3);
// Evaluations and saves take as long as they take.
inline constexpr Duration kStallInSection = Duration::Minutes(30);
inline constexpr size_t kOddRanksMax = 16;

// Judges the ranks of a job that were seen at one moment; those that have not begun, or are done,
// do not count. Cost: O(ranks log ranks).
[[nodiscard]] RanksVerdict JudgeRanks(const std::vector<RankTick>& ranks);

}  // namespace tide::health
