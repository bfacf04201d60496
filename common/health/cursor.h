#pragma once
// A reading position inside one line of text, for hand-written parsers. Every Take* either
// consumes what it names and says yes, or leaves the position as it was.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tide::health {

[[nodiscard]] constexpr bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}
[[nodiscard]] constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
[[nodiscard]] constexpr bool IsWord(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_';
}

// 0–15, or -1.
[[nodiscard]] constexpr int HexDigit(char c) {
  if (IsDigit(c)) {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Cursor {
 public:
  explicit constexpr Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] constexpr std::string_view rest() const { return rest_; }
  [[nodiscard]] constexpr bool AtEnd() const { return rest_.empty(); }
  [[nodiscard]] constexpr char Peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  constexpr void Skip(size_t n) { rest_.remove_prefix(n < rest_.size() ? n : rest_.size()); }

  [[nodiscard]] constexpr bool Take(std::string_view expected) {
    if (!rest_.starts_with(expected)) {
      return false;
    }
    Skip(expected.size());
    return true;
  }

  constexpr size_t SkipBlanks() { return TakeWhile(IsBlank).size(); }
  [[nodiscard]] constexpr bool TakeBlanks() { return SkipBlanks() > 0; }

  template <typename Predicate>
  constexpr std::string_view TakeWhile(Predicate wanted) {
    size_t n = 0;
    while (n < rest_.size() && wanted(rest_[n])) {
      ++n;
    }
    const std::string_view taken = rest_.substr(0, n);
    Skip(n);
    return taken;
  }

  // A decimal number of 1 to max_digits digits, and no more digits behind it.
  [[nodiscard]] constexpr std::optional<int64_t> TakeNumber(size_t max_digits) {
    return TakeInteger(max_digits, 10);
  }
  [[nodiscard]] constexpr std::optional<int64_t> TakeHex(size_t max_digits) {
    return TakeInteger(max_digits, 16);
  }

 private:
  [[nodiscard]] constexpr std::optional<int64_t> TakeInteger(size_t max_digits, int base) {
    int64_t value = 0;
    size_t n = 0;
    for (; n < rest_.size(); ++n) {
      const int digit = HexDigit(rest_[n]);
      if (digit < 0 || digit >= base) {
        break;
      }
      if (n == max_digits) {
        return std::nullopt;
      }
      value = value * base + digit;
    }
    if (n == 0) {
      return std::nullopt;
    }
    Skip(n);
    return value;
  }

  std::string_view rest_;
};

}  // namespace tide::health
