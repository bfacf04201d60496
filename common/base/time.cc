#include "common/base/time.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace tide {

Instant SystemNow() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return Instant::FromUnixNanos(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

int64_t MonotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::string FormatRfc3339(Instant at) {
  if (!at.is_set()) {
    return "";
  }
  const time_t seconds = at.unix_nanos() / 1'000'000'000;
  const int64_t millis = at.unix_nanos() / 1'000'000 % 1000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> date{};
  if (strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
    return "";
  }
  std::array<char, 48> text{};
  std::snprintf(
      text.data(), text.size(), "%s.%03lldZ", date.data(), static_cast<long long>(millis));
  return text.data();
}

std::string FormatDuration(Duration span) {
  const int64_t total_s = span.nanos() < 0 ? 0 : span.nanos() / 1'000'000'000;
  const int64_t days = total_s / 86400;
  const int64_t hours = total_s / 3600 % 24;
  const int64_t minutes = total_s / 60 % 60;
  const int64_t seconds = total_s % 60;
  const auto two = [](int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (days > 0) {
    return std::to_string(days) + "d" + two(hours) + "h";
  }
  if (hours > 0) {
    return std::to_string(hours) + "h" + two(minutes) + "m";
  }
  if (minutes > 0) {
    return std::to_string(minutes) + "m" + two(seconds) + "s";
  }
  return std::to_string(seconds) + "s";
}

}  // namespace tide
