#include "common/spec/span_text.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>

namespace tide {
namespace {

struct Unit {
  std::string_view name;
  int64_t millis;
};
constexpr std::array<Unit, 5> kUnits = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr int64_t kLongestMillis = 10'000LL * 86'400'000;

bool IsDigit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::unexpected<Error> NoSpan(std::string_view text, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(text.substr(0, 40)) + "\" is no duration: " + why);
}

// Splits "90m…" into its number and unit and moves `rest` behind them.
Result<int64_t> TakePart(std::string_view whole, std::string_view& rest, size_t& next_unit) {
  int64_t count = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  if (!IsDigit(rest.front()) || error != std::errc()) {
    return NoSpan(whole, "write whole numbers with units, such as 60s, 5m, 1h30m or 14d");
  }
  rest.remove_prefix(static_cast<size_t>(stop - rest.data()));
  size_t length = 0;
  while (length < rest.size() && !IsDigit(rest[length])) {
    ++length;
  }
  const std::string_view name = rest.substr(0, length);
  rest.remove_prefix(length);
  if (name.empty()) {
    return NoSpan(whole, "the unit is missing; write d, h, m, s or ms, such as 60s");
  }
  for (size_t i = next_unit; i < kUnits.size(); ++i) {
    if (kUnits[i].name == name) {
      next_unit = i + 1;
      if (count > kLongestMillis / kUnits[i].millis) {
        return NoSpan(whole, "the longest is 10000d");
      }
      return count * kUnits[i].millis;
    }
  }
  return NoSpan(whole, "the units are d, h, m, s and ms, each once and the larger first");
}

}  // namespace

Result<Duration> ParseSpan(std::string_view text) {
  if (text.empty()) {
    return NoSpan(text, "write whole numbers with units, such as 60s, 5m, 1h30m or 14d");
  }
  int64_t millis = 0;
  size_t next_unit = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    TIDE_ASSIGN(const int64_t part, TakePart(text, rest, next_unit));
    millis += part;
  }
  if (millis > kLongestMillis) {
    return NoSpan(text, "the longest is 10000d");
  }
  return Duration::Millis(millis);
}

std::string FormatSpan(Duration span) {
  int64_t millis = span.millis();
  std::string text;
  for (const Unit& unit : kUnits) {
    const int64_t count = millis / unit.millis;
    if (count > 0) {
      text += std::to_string(count) + std::string(unit.name);
      millis -= count * unit.millis;
    }
  }
  return text.empty() ? "0s" : text;
}

}  // namespace tide
