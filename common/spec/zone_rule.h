#pragma once
// Where a job may lie (JobSpec::zone): "single", one zone; "cross-ok", as many as it takes;
// "cross-ok:N", N at most; or the name of a zone.

#include <cstdint>
#include <string>
#include <string_view>

namespace tide {

inline constexpr std::string_view kSingleZone = "single";
inline constexpr std::string_view kCrossOk = "cross-ok";
inline constexpr uint32_t kAnyZones = UINT32_MAX;
inline constexpr uint32_t kZonesMaxMost = 1000;  // N of "cross-ok:N"

// Returns how many zones a job may lie in by its rule: kAnyZones for "cross-ok", 0 for
// "cross-ok:" with something that is not a number from 2 to kZonesMaxMost.
[[nodiscard]] uint32_t ZonesMax(std::string_view rule);

// Reports whether a rule lets a job lie in several zones.
[[nodiscard]] inline bool MayLieAcross(std::string_view rule) {
  return ZonesMax(rule) > 1;
}

// Returns "zone A", "one zone", "3 zones together" or "all zones together".
[[nodiscard]] std::string DescribeZones(std::string_view rule);

// Reports whether a rule names a zone.
[[nodiscard]] bool IsNamedZone(std::string_view rule);

}  // namespace tide
