#pragma once
// Memory of one port, and the meaning of its next sample. Pure; one thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/health/port_noise.h"
#include "agent/health/port_sample.h"
#include "common/base/time.h"
#include "common/health/fault_kind.h"

namespace tide::health {

constexpr Duration kDownAfter = Duration::Seconds(30);
constexpr uint32_t kSamplesToJudge = 3;  // in a row: absent, or below the rate

// Counters that grow with every cut.
inline constexpr auto kCutCounters =
    std::to_array<PortCounter>({PortCounter::kLinkDowned, PortCounter::kCarrierChanges});

// Times that are not set have not been yet, in this boot.
struct PortRecord {
  std::string device;
  std::string name;
  bool wanted = false;  // should be active though it was not seen so: expected, or found broken
  Instant last_active;
  Instant down_since;  // first sample of the cut that goes on; set until it is over
  Instant last_down;   // last sample of that cut
  std::array<std::optional<uint64_t>, kCutCounters.size()> counted;  // last known
  std::array<uint64_t, kCutCounters.size()> grown{};                 // since last_active
  uint64_t best_mbps = 0;                                            // while active; 0 = not known
  uint32_t best_lanes = 0;
  uint32_t absent = 0;  // samples in a row
  uint32_t below = 0;   // samples in a row: active at less than the reference
  bool down = false;    // open conditions
  bool degraded = false;
  bool gone = false;
  bool noisy = false;
  Instant loud_at;  // last sample with errors over a limit
  NoiseWindows noise;

  // Reports whether it means anything that this port is not active.
  [[nodiscard]] bool IsJudged() const { return wanted || last_active.is_set(); }
};

// The rate that a port should have, and the source of that. Zeros are not known.
struct PortReference {
  uint64_t mbps = 0;
  uint32_t lanes = 0;
  std::string text;  // "best of this boot 400 Gb/s (4X)"
};

struct PortNews {
  std::vector<std::pair<FaultKind, std::string>> faults;  // with what was seen
  std::vector<FaultKind> cleared;
};

// "400 Gb/s (4X)"; without lanes where they are 0.
[[nodiscard]] std::string RateText(uint64_t mbps, uint32_t lanes);

// Takes the next sample of a port.
//   reference: without what this sample shows. now: not before an earlier one.
void LookAt(PortRecord& port,
            const PortSample& sample,
            const PortReference& reference,
            Instant now,
            PortNews& news);

// Takes a sample that does not have the port.
void LookAbsent(PortRecord& port, PortNews& news);

// Ends a condition, if it is open.
void Clear(FaultKind kind, bool& open, PortNews& news);

}  // namespace tide::health
