// The words and numbers that sysfs holds about ports.

#include <algorithm>

#include "agent/health/port_sample.h"
#include "common/health/cursor.h"

namespace tide::health {

std::string_view PortCounterName(PortCounter counter) {
  const std::string_view file = kPortCounterFiles[std::to_underlying(counter)];
  const size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

std::optional<PortRate> ParsePortRate(std::string_view text) {
  Cursor c(text);
  const auto whole = c.TakeNumber(6);
  if (!whole) {
    return std::nullopt;
  }
  PortRate rate{.mbps = static_cast<uint64_t>(*whole) * 1000, .lanes = std::nullopt};
  if (c.Take(".")) {
    const auto tenths = c.TakeNumber(1);
    if (!tenths) {
      return std::nullopt;
    }
    rate.mbps += static_cast<uint64_t>(*tenths) * 100;
  }
  if (!c.Take(" Gb/sec") || rate.mbps == 0 || rate.mbps > kPortRateMbpsMax) {
    return std::nullopt;
  }
  if (c.Take(" (")) {
    const auto lanes = c.TakeNumber(2);
    if (lanes && *lanes > 0 && c.Take("X")) {
      rate.lanes = static_cast<uint32_t>(*lanes);
    }
  }
  return rate;
}

std::optional<PortState> ParsePortState(std::string_view text) {
  constexpr auto kStates = std::to_array<std::pair<std::string_view, PortState>>({
      {"1: DOWN", PortState::kDown},
      {"2: INIT", PortState::kInit},
      {"3: ARMED", PortState::kArmed},
      {"4: ACTIVE", PortState::kActive},
  });
  const auto* const found =
      std::ranges::find(kStates, text, &std::pair<std::string_view, PortState>::first);
  return found == kStates.end() ? std::nullopt : std::optional(found->second);
}

bool IsPortWord(std::string_view text) {
  return !text.empty() && text.size() <= kPortWordMax &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace tide::health
