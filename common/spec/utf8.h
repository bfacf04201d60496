#pragma once
// UTF-8, one code point at a time. Pure functions.

#include <cstddef>
#include <optional>
#include <string_view>

namespace tide {

// Reads the code point at `pos` and moves `pos` behind it. Nothing, and `pos` moved by one byte,
// where the bytes are not UTF-8 (overlong forms and surrogates included). pos < text.size().
[[nodiscard]] std::optional<char32_t> NextCodePoint(std::string_view text, size_t& pos);

// Offset of the first byte that is not UTF-8; nothing when all of it is.
[[nodiscard]] std::optional<size_t> FindInvalidUtf8(std::string_view text);

}  // namespace tide
