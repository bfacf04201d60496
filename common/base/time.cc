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

int64_t BootNanos() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
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

namespace {

// Takes digits off the front of `text`; false when there are fewer.
bool TakeNumber(std::string_view& text, size_t digits, int64_t& number) {
  number = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (i == text.size() || text[i] < '0' || text[i] > '9') {
      return false;
    }
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return true;
}

bool TakeLetter(std::string_view& text, char letter) {
  const bool there = text.starts_with(letter);
  text.remove_prefix(there ? 1 : 0);
  return there;
}

// The time of day, in nanoseconds; nothing left of `text` but the Z.
bool TakeTime(std::string_view& text, int64_t& nanos) {
  int64_t hour = 0;
  int64_t minute = 0;
  int64_t second = 0;
  if (!TakeLetter(text, 'T') || !TakeNumber(text, 2, hour) || !TakeLetter(text, ':') ||
      !TakeNumber(text, 2, minute) || !TakeLetter(text, ':') || !TakeNumber(text, 2, second) ||
      hour > 23 || minute > 59 || second > 59) {
    return false;
  }
  nanos = ((hour * 60 + minute) * 60 + second) * 1'000'000'000;
  if (TakeLetter(text, '.')) {
    const size_t digits = text.find_first_not_of("0123456789");
    int64_t fraction = 0;
    if (digits == 0 || digits > 9 || !TakeNumber(text, digits, fraction)) {
      return false;
    }
    for (size_t i = digits; i < 9; ++i) {
      fraction *= 10;
    }
    nanos += fraction;
  }
  return true;
}

}  // namespace

std::optional<Instant> ParseRfc3339(std::string_view text) {
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
  if (!TakeNumber(text, 4, year) || !TakeLetter(text, '-') || !TakeNumber(text, 2, month) ||
      !TakeLetter(text, '-') || !TakeNumber(text, 2, day)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  int64_t nanos = 0;
  if (!date.ok() || year < 1970 || year > 2261) {
    return std::nullopt;
  }
  if (!text.empty() && (!TakeTime(text, nanos) || text != "Z")) {
    return std::nullopt;
  }
  constexpr int64_t kDayNanos = int64_t{24} * 3600 * 1'000'000'000;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return Instant::FromUnixNanos(days * kDayNanos + nanos);
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
