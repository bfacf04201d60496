#include "common/base/utf8.h"

#include <array>
#include <cstdint>

namespace tide {
namespace {

// Length of the sequence that `lead` begins; 0 = not a lead byte.
size_t SequenceLength(uint8_t lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead < 0xE0) {
    return 2;
  }
  if (lead >= 0xE0 && lead < 0xF0) {
    return 3;
  }
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

bool IsScalarValue(char32_t point, size_t length) {
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point >= kSmallest[length] && point <= 0x10FFFF && !surrogate;
}

}  // namespace

std::optional<char32_t> NextCodePoint(std::string_view text, size_t& pos) {
  const auto lead = static_cast<uint8_t>(text[pos]);
  const size_t length = SequenceLength(lead);
  if (length == 1) {
    ++pos;
    return lead;
  }
  if (length == 0 || pos + length > text.size()) {
    ++pos;
    return std::nullopt;
  }
  char32_t point = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[pos + i]);
    if ((byte & 0xC0U) != 0x80) {
      ++pos;
      return std::nullopt;
    }
    point = (point << 6U) | (byte & 0x3FU);
  }
  if (!IsScalarValue(point, length)) {
    ++pos;
    return std::nullopt;
  }
  pos += length;
  return point;
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t begin = pos;
    if (!NextCodePoint(text, pos)) {
      return begin;
    }
  }
  return std::nullopt;
}

bool SteersTerminal(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

std::string EscapeOf(char32_t point) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escape = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    escape += kDigits[(point >> static_cast<unsigned>(shift)) & 0xFU];
  }
  return escape;
}

std::string EscapeSteering(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t begin = pos;
    const auto point = NextCodePoint(text, pos);
    if (point && !SteersTerminal(*point)) {
      out += text.substr(begin, pos - begin);
      continue;
    }
    out += EscapeOf(point.value_or(U'\uFFFD'));
  }
  return out;
}

}  // namespace tide
