#pragma once
// UTF-8, one code point at a time, and text of others that is fit for a log or a terminal. Pure
// functions.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tide {

// Reads the code point at `pos` and moves `pos` behind it. Nothing, and `pos` moved by one byte,
// where the bytes are not UTF-8 (overlong forms and surrogates included). pos < text.size().
[[nodiscard]] std::optional<char32_t> NextCodePoint(std::string_view text, size_t& pos);

// Returns the offset of the first byte that is not UTF-8; nothing when all of it is.
[[nodiscard]] std::optional<size_t> FindInvalidUtf8(std::string_view text);

// Reports whether a terminal does something at this character rather than show it: moves the
// cursor, obeys a sequence, reorders the line (bidirectional overrides).
[[nodiscard]] bool SteersTerminal(char32_t point);

// Returns the character as an escape that JSON and YAML read in quotes: `\u202E`. point <= 0xFFFF.
[[nodiscard]] std::string EscapeOf(char32_t point);

// Writes such characters as escapes, and bytes that are not UTF-8 as \uFFFD. The result is one
// line.
[[nodiscard]] std::string EscapeSteering(std::string_view text);

}  // namespace tide
