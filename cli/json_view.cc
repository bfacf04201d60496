#include "cli/json_view.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace tide::cli {

const json& Member(const json& object, std::string_view key) {
  static const json kNull;
  if (!object.is_object()) {
    return kNull;
  }
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

const json& Items(const json& object, std::string_view key) {
  static const json kEmpty = json::array();
  const json& member = Member(object, key);
  return member.is_array() ? member : kEmpty;
}

std::string Text(const json& object, std::string_view key) {
  const json& member = Member(object, key);
  return member.is_string() ? member.get<std::string>() : "";
}

int64_t Number(const json& object, std::string_view key, int64_t fallback) {
  const json& member = Member(object, key);
  return member.is_number() ? member.get<int64_t>() : fallback;
}

bool Flag(const json& object, std::string_view key) {
  const json& member = Member(object, key);
  return member.is_boolean() && member.get<bool>();
}

Instant Time(const json& object, std::string_view key) {
  return ParseRfc3339(Text(object, key)).value_or(Instant());
}

std::string ShortNumber(int64_t number) {
  if (number < 1000) {
    return std::to_string(number);
  }
  const bool millions = number >= 999'950;
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%.1f%c",
                static_cast<double>(number) / (millions ? 1e6 : 1e3),
                millions ? 'M' : 'k');
  std::string out = text.data();
  const size_t zero = out.find(".0");
  return zero == std::string::npos ? out : out.erase(zero, 2);
}

std::string ShortBytes(int64_t bytes) {
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  const int64_t tenths = bytes / (kGibibyte / 10);
  if (tenths >= 10) {
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
  }
  const int64_t mebibyte = 1 << 20;
  return bytes >= mebibyte ? std::to_string((bytes + mebibyte - 1) / mebibyte) + " MiB"
                           : std::to_string((bytes + 1023) / 1024) + " KiB";
}

std::string Count(int64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

std::string Since(Instant begin, Instant now) {
  return begin.is_set() ? FormatDuration(now - begin) : "";
}

}  // namespace tide::cli
