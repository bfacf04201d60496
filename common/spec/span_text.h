#pragma once
// Spans of time as people write them in specs and on the command line: 60s, 1h30m, 14d.

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time.h"

namespace tide {

// Whole numbers with the units d, h, m, s, ms, each at most once and the larger first.
// Errors: kInvalidArgument, also above 10,000 days; the message says what would be right.
[[nodiscard]] Result<Duration> ParseSpan(std::string_view text);

// The shortest text that ParseSpan reads as the same span; parts below 1 ms are dropped.
[[nodiscard]] std::string FormatSpan(Duration span);

}  // namespace tide
