#pragma once
// Text that came from outside, made fit for a database column.

#include <string>
#include <string_view>

namespace tide {

[[nodiscard]] bool IsUtf8(std::string_view text);

// The text itself, or with '?' for what PostgreSQL refuses: NUL and bytes that are no UTF-8.
[[nodiscard]] std::string ReadableText(std::string_view text);

// The text with blanks for its line breaks and none at its end: for messages of one line.
[[nodiscard]] std::string OneLine(std::string_view text);

// Appends the text as a JSON string. What is no UTF-8 goes through as it is.
void AppendJsonString(std::string& out, std::string_view text);

// "00ff": two digits for each byte, and back. FromHex gives false for anything else.
[[nodiscard]] std::string ToHex(std::string_view bytes);
[[nodiscard]] bool FromHex(std::string_view hex, std::string& bytes);

}  // namespace tide
