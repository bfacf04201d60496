#pragma once
// Where a rank is that stands still: read from the stacks that Python's faulthandler wrote into its
// log. What a rank writes is its user's: it is cut and made printable, and believed by nobody but
// people.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tide::agent {

// Returns the innermost function of the main thread in the first dump of the text, as
// "all_reduce (distributed_c10d.py:2050)"; nothing where there is none.
//   Source: Python/traceback.c of CPython, _Py_DumpTracebackThreads.
[[nodiscard]] std::optional<std::string> FindStackPlace(std::string_view text);

// Returns how long the rank's log is; 0 = it has none.
//   folder: the task's logs/.
[[nodiscard]] uint64_t LogLength(const std::string& folder, uint32_t rank);
// Returns what FindStackPlace finds in the log from there on; "" = nothing, or nothing yet.
[[nodiscard]] std::string StackPlaceFrom(const std::string& folder, uint32_t rank, uint64_t from);

}  // namespace tide::agent
