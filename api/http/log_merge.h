#pragma once
// Which of several ranks' lines comes next, by time. Pure: the caller says what time it is.

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/time.h"

namespace tide::api {

// What is known of one rank.
struct MergeInput {
  bool open = true;  // more may come
  std::optional<int64_t>
      at;                  // of its next line, unix ns by its node's clock; nothing = none is here
  int64_t came = 0;        // when that line was here, monotonic ns
  bool caught_up = false;  // its silence says that it has written nothing
  int64_t asked = 0;       // when it began to be read, monotonic ns
};

// Of ranks that are followed a line waits this long for older ones of ranks that are silent.
inline constexpr Duration kMergeLag = Duration::Millis(100);
// And this long for ranks that have not sent what they had when they were asked.
inline constexpr Duration kMergeStart = Duration::Seconds(2);

struct MergeChoice {
  std::optional<size_t> next;  // the input whose line is due
  int64_t look_again = 0;  // monotonic ns: later nothing else need happen; 0 = when a line comes
};

// The oldest line, ties by position. Without `follow` every open input must have one first.
[[nodiscard]] MergeChoice ChooseNext(std::span<const MergeInput> inputs, bool follow, int64_t now);

}  // namespace tide::api
