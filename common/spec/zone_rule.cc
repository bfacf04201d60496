#include "common/spec/zone_rule.h"

#include <charconv>

namespace tide {
namespace {

// "cross-ok:" and what follows; a zone's name has no colon.
bool HasNumber(std::string_view rule) {
  return rule.starts_with(kCrossOk) && rule.substr(kCrossOk.size()).starts_with(':');
}

}  // namespace

uint32_t ZonesMax(std::string_view rule) {
  if (rule == kCrossOk) {
    return kAnyZones;
  }
  if (!HasNumber(rule)) {
    return 1;
  }
  const std::string_view digits = rule.substr(kCrossOk.size() + 1);
  uint32_t zones = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), zones);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number && zones >= 2 && zones <= kZonesMaxMost ? zones : 0;
}

std::string DescribeZones(std::string_view rule) {
  if (IsNamedZone(rule)) {
    return "zone " + std::string(rule);
  }
  const uint32_t zones_max = ZonesMax(rule);
  return zones_max <= 1 ? "one zone"
                        : (zones_max == kAnyZones ? "all" : std::to_string(zones_max)) +
                              std::string(" zones together");
}

bool IsNamedZone(std::string_view rule) {
  return rule != kSingleZone && rule != kCrossOk && !HasNumber(rule);
}

}  // namespace tide
