#pragma once
// JSON as text: members and elements are handed on as they were written, so that a number keeps
// every digit on its way from a rank's part into the manifest.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::sdk {

struct JsonMember {
  std::string_view key;    // as written, with its quotes
  std::string_view value;  // as written
};

// The parts of one object or array. Values are told apart, not checked.
//   Errors: kCorrupt where brackets, quotes or commas do not fit.   Cost: one pass.
[[nodiscard]] Result<std::vector<JsonMember>> JsonMembers(std::string_view object);
[[nodiscard]] Result<std::vector<std::string_view>> JsonElements(std::string_view array);

// The value of the member `key` (without quotes). Errors: kCorrupt if there is none.
[[nodiscard]] Result<std::string_view> JsonMemberOf(std::string_view object, std::string_view key);

// Errors: kCorrupt if it is anything but a whole number of 64 bits.
[[nodiscard]] Result<int64_t> JsonInteger(std::string_view value);

// A string's content. Errors: kCorrupt if it is no string.
[[nodiscard]] Result<std::string> JsonString(std::string_view value);

// UTF-8 as a JSON string of ASCII, with the escapes of Python's json.dumps. What is no UTF-8
// becomes U+FFFD.
[[nodiscard]] std::string JsonQuote(std::string_view text);

}  // namespace tide::sdk
