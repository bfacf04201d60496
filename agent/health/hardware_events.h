#pragma once
// Reports of a watch about what it observes: faults that begin, and those that are over.

#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/health/fault_kind.h"

namespace tide::health {

struct HardwareFault {
  FaultKind kind = FaultKind::kLinkFlash;
  std::string device;
  std::string text;  // what was seen, with figures
  Instant seen_at;
  bool operator==(const HardwareFault&) const = default;
};

struct HardwareCleared {
  FaultKind kind = FaultKind::kLinkDown;
  std::string device;
  bool operator==(const HardwareCleared&) const = default;
};

// Faults come before what is cleared: one that begins and ends in one sample is in both.
struct HardwareEvents {
  std::vector<HardwareFault> faults;
  std::vector<HardwareCleared> cleared;
};

}  // namespace tide::health
