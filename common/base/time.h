#pragma once
// Points in time and spans, as integers: the core computes with them, never with a clock.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tide {

class Duration {
 public:
  constexpr Duration() = default;
  [[nodiscard]] static constexpr Duration Nanos(int64_t n) { return Duration(n); }
  [[nodiscard]] static constexpr Duration Millis(int64_t n) { return Duration(n * 1'000'000); }
  [[nodiscard]] static constexpr Duration Seconds(int64_t n) { return Millis(n * 1000); }
  [[nodiscard]] static constexpr Duration Minutes(int64_t n) { return Seconds(n * 60); }
  [[nodiscard]] constexpr int64_t nanos() const { return nanos_; }
  [[nodiscard]] constexpr int64_t millis() const { return nanos_ / 1'000'000; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(nanos_) / 1e9; }
  constexpr auto operator<=>(const Duration&) const = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Nanos(a.nanos_ + b.nanos_); }
  friend constexpr Duration operator-(Duration a, Duration b) { return Nanos(a.nanos_ - b.nanos_); }
  friend constexpr Duration operator*(Duration a, int64_t n) { return Nanos(a.nanos_ * n); }

 private:
  constexpr explicit Duration(int64_t nanos) : nanos_(nanos) {}
  int64_t nanos_ = 0;
};

// Unix time. The zero value means "not set".
class Instant {
 public:
  constexpr Instant() = default;
  [[nodiscard]] static constexpr Instant FromUnixNanos(int64_t n) {
    Instant at;
    at.nanos_ = n;
    return at;
  }
  [[nodiscard]] static constexpr Instant Never() { return FromUnixNanos(INT64_MAX); }
  [[nodiscard]] constexpr int64_t unix_nanos() const { return nanos_; }
  [[nodiscard]] constexpr bool is_set() const { return nanos_ != 0; }
  constexpr auto operator<=>(const Instant&) const = default;
  friend constexpr Instant operator+(Instant a, Duration d) {
    return FromUnixNanos(a.nanos_ + d.nanos());
  }
  friend constexpr Instant operator-(Instant a, Duration d) {
    return FromUnixNanos(a.nanos_ - d.nanos());
  }
  friend constexpr Duration operator-(Instant a, Instant b) {
    return Duration::Nanos(a.nanos_ - b.nanos_);
  }

 private:
  int64_t nanos_ = 0;
};

// The system clock. Only edges of the system call this; cores take `now` as an argument.
[[nodiscard]] Instant SystemNow();

// CLOCK_MONOTONIC in nanoseconds: for measuring and for deadlines inside one process.
[[nodiscard]] int64_t MonotonicNanos();
// CLOCK_BOOTTIME in nanoseconds: the same, and it goes on while the machine sleeps. For leases.
[[nodiscard]] int64_t BootNanos();

// "2026-01-31T12:00:00.123Z", or "" when not set.
[[nodiscard]] std::string FormatRfc3339(Instant at);

// "2026-01-31", "2026-01-31T12:00:00Z" or with a fraction of up to nine digits: UTC, the years 1970
// to 2261. Nothing for any other text.
[[nodiscard]] std::optional<Instant> ParseRfc3339(std::string_view text);

// "4s", "3m12s", "2h05m", "4d06h": for tables.
[[nodiscard]] std::string FormatDuration(Duration span);

}  // namespace tide
