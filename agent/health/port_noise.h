#pragma once
// How fast a port's error counters grow. Pure; one thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/health/port_sample.h"
#include "common/base/time.h"

namespace tide::health {

struct NoiseLimit {
  PortCounter counter = PortCounter::kSymbolError;
  uint64_t count = 0;  // more than so many in `span` are too many
  Duration span;
};

// Limits at which NVSentinel takes a port for troubled, though not for broken.
inline constexpr auto kNoiseLimits = std::to_array<NoiseLimit>({
    {PortCounter::kSymbolError, 10, Duration::Seconds(1)},
    {PortCounter::kLinkErrorRecovery, 5, Duration::Minutes(1)},
    {PortCounter::kRcvErrors, 10, Duration::Seconds(1)},
    {PortCounter::kLocalAckTimeout, 1, Duration::Seconds(1)},
    {PortCounter::kXmitDiscards, 100, Duration::Seconds(1)},
    {PortCounter::kRoceSlowRestart, 10, Duration::Seconds(1)},
});

constexpr Duration kNoiseWindow = Duration::Seconds(10);  // at least; the limit's span if longer
constexpr Duration kQuietAfter = Duration::Seconds(60);

// Windows that slide over the error counters of one port, a dozen points for each.
class NoiseWindows {
 public:
  // Returns the counters that grow too fast, with their rates; "" when none does, or no window is
  // full yet. now: never before that of an earlier call since Restart.
  [[nodiscard]] std::string Take(Instant now, const PortSample& sample);
  // Forgets all counts: a cut brings errors of its own.
  void Restart();

 private:
  struct Point {
    Instant at;
    uint64_t count = 0;
  };
  std::array<std::vector<Point>, kNoiseLimits.size()> points_;  // as kNoiseLimits; oldest first
};

}  // namespace tide::health
