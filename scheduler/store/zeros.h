#pragma once
// Which members a row leaves out (codec.h): those that are zero – 0, false, empty, unset – where
// zero is what a reader gives to a member that it does not find.

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/check.h"
#include "common/base/time.h"
#include "scheduler/core/model/job.h"
#include "scheduler/store/codec_types.h"
#include "scheduler/store/event_fields.h"

namespace tide {

template <typename T>
[[nodiscard]] bool IsZero(const T& value);

// Visits the members of a struct: are all of them zero?
struct ZeroProbe {
  bool all = true;

  template <typename T>
  void operator()(std::string_view /*key*/, const T& value) {
    all = all && IsZero(value);
  }
};

template <typename T>
bool IsZero(const T& value) {
  if constexpr (std::same_as<T, std::string> || std::same_as<T, StringMap> || kIsVector<T>) {
    return value.empty();
  } else if constexpr (std::same_as<T, double>) {
    return std::bit_cast<uint64_t>(value) == 0;  // not -0.0
  } else if constexpr (kIsOptional<T>) {
    return !value.has_value();
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, Instant> ||
                       std::same_as<T, Duration> || kIsId<T>) {
    return value == T{};
  } else if constexpr (std::same_as<T, JobPhase>) {
    return false;  // people look for it
  } else {
    ZeroProbe probe;
    VisitFields(probe, value);
    return probe.all;
  }
}

// Visits the members of a default value: bit i = the i-th one is not zero.
struct NonZeroProbe {
  uint64_t bits = 0;
  uint64_t bit = 1;

  template <typename T>
  void operator()(std::string_view /*key*/, const T& value) {
    TIDE_CHECK(bit != 0, "a struct has at most 64 members");
    bits |= IsZero(value) ? 0 : bit;
    bit <<= 1;
  }
};

// The members whose zero is written, for a reader would give them something else.
template <typename T>
[[nodiscard]] uint64_t NonZeroDefaults() {
  NonZeroProbe probe;
  VisitFields(probe, static_cast<const T&>(T{}));
  return probe.bits;
}

}  // namespace tide
