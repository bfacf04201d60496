#include "sdk/native/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace tide::sdk {
namespace {

std::unexpected<Error> Malformed(std::string_view why) {
  return Fail(ErrorCode::kCorrupt, "malformed JSON: " + std::string(why));
}

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Walks over one text from its beginning to its end.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) {
      ++at_;
    }
  }

  bool Take(char expected) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != expected) {
      return false;
    }
    ++at_;
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  Result<std::string_view> TakeString() {
    SkipSpace();
    const size_t begin = at_;
    if (!SkipString()) {
      return Malformed("no string where one must be");
    }
    return text_.substr(begin, at_ - begin);
  }

  Result<std::string_view> TakeValue() {
    SkipSpace();
    const size_t begin = at_;
    size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
        break;
      }
      if (c == '"') {
        if (!SkipString()) {
          return Malformed("a string does not end");
        }
        continue;
      }
      depth += (c == '{' || c == '[') ? 1U : 0U;
      depth -= (c == '}' || c == ']') ? 1U : 0U;
      ++at_;
    }
    size_t end = at_;
    while (end > begin && IsSpace(text_[end - 1])) {
      --end;
    }
    if (depth != 0 || end == begin) {
      return Malformed("a value is missing or does not end");
    }
    return text_.substr(begin, end - begin);
  }

 private:
  bool SkipString() {
    if (at_ == text_.size() || text_[at_] != '"') {
      return false;
    }
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return true;
      }
    }
    at_ = text_.size();
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void AppendEscape(std::string& out, uint32_t unit) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", unit);
  out += text.data();
}

void AppendCodePoint(std::string& out, uint32_t point) {
  if (point >= 0x10000) {
    AppendEscape(out, 0xD800U + ((point - 0x10000U) >> 10U));
    AppendEscape(out, 0xDC00U + ((point - 0x10000U) & 0x3FFU));
  } else {
    AppendEscape(out, point);
  }
}

// The code point that starts at text[at], which moves on behind it.
uint32_t TakeCodePoint(std::string_view text, size_t& at) {
  constexpr uint32_t kReplacement = 0xFFFD;
  const auto first = static_cast<uint8_t>(text[at++]);
  const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC2 ? 1 : 0;
  if (more == 0 || first > 0xF4) {
    return kReplacement;
  }
  uint32_t point = first & (0x3FU >> more);
  for (size_t i = 0; i < more; ++i) {
    if (at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0U) != 0x80U) {
      return kReplacement;
    }
    point = (point << 6U) | (static_cast<uint8_t>(text[at++]) & 0x3FU);
  }
  constexpr std::array<uint32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  const bool valid =
      point >= kLeast[more] && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
  return valid ? point : kReplacement;
}

void AppendUtf8(std::string& out, uint32_t point) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0U | (point >> 6U));
    put(0x80U | (point & 0x3FU));
  } else if (point < 0x10000) {
    put(0xE0U | (point >> 12U));
    put(0x80U | ((point >> 6U) & 0x3FU));
    put(0x80U | (point & 0x3FU));
  } else {
    put(0xF0U | (point >> 18U));
    put(0x80U | ((point >> 12U) & 0x3FU));
    put(0x80U | ((point >> 6U) & 0x3FU));
    put(0x80U | (point & 0x3FU));
  }
}

std::optional<uint32_t> HexUnit(std::string_view text, size_t at) {
  uint32_t unit = 0;
  if (at + 4 > text.size()) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, unit, 16);
  return error == std::errc() && end == text.data() + at + 4 ? std::optional(unit) : std::nullopt;
}

// The code point of the escape whose `u` is at text[at]; `at` moves to the escape's last character.
std::optional<uint32_t> UnicodeEscape(std::string_view text, size_t& at) {
  const std::optional<uint32_t> high = HexUnit(text, at + 1);
  if (!high) {
    return std::nullopt;
  }
  at += 4;
  if (*high < 0xD800 || *high > 0xDBFF || text.substr(at + 1, 2) != "\\u") {
    return high;
  }
  const std::optional<uint32_t> low = HexUnit(text, at + 3);
  if (!low || *low < 0xDC00 || *low > 0xDFFF) {
    return high;
  }
  at += 6;
  return 0x10000U + ((*high - 0xD800U) << 10U) + (*low - 0xDC00U);
}

}  // namespace

Result<std::vector<JsonMember>> JsonMembers(std::string_view object) {
  Walk walk(object);
  std::vector<JsonMember> members;
  if (!walk.Take('{')) {
    return Malformed("no object where one must be");
  }
  if (!walk.Take('}')) {
    do {
      TIDE_ASSIGN(const std::string_view key, walk.TakeString());
      if (!walk.Take(':')) {
        return Malformed("no value behind a key");
      }
      TIDE_ASSIGN(const std::string_view value, walk.TakeValue());
      members.push_back({key, value});
    } while (walk.Take(','));
    if (!walk.Take('}')) {
      return Malformed("an object does not end");
    }
  }
  if (!walk.AtEnd()) {
    return Malformed("text behind the object");
  }
  return members;
}

Result<std::vector<std::string_view>> JsonElements(std::string_view array) {
  Walk walk(array);
  std::vector<std::string_view> elements;
  if (!walk.Take('[')) {
    return Malformed("no array where one must be");
  }
  if (!walk.Take(']')) {
    do {
      TIDE_ASSIGN(const std::string_view value, walk.TakeValue());
      elements.push_back(value);
    } while (walk.Take(','));
    if (!walk.Take(']')) {
      return Malformed("an array does not end");
    }
  }
  if (!walk.AtEnd()) {
    return Malformed("text behind the array");
  }
  return elements;
}

Result<std::string_view> JsonMemberOf(std::string_view object, std::string_view key) {
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(object));
  for (const JsonMember& member : members) {
    if (member.key.substr(1, member.key.size() - 2) == key) {
      return member.value;
    }
  }
  return Malformed("no member " + std::string(key));
}

Result<int64_t> JsonInteger(std::string_view value) {
  int64_t number = 0;
  const char* const first = value.data();
  const char* const last = first + value.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc() || end != last) {
    return Malformed("no whole number: " + std::string(value.substr(0, 40)));
  }
  return number;
}

Result<std::string> JsonString(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    return Malformed("no string: " + std::string(value.substr(0, 40)));
  }
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  const std::string_view text = value.substr(1, value.size() - 2);
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    ++at;
    const size_t known = at < text.size() ? kNames.find(text[at]) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += kMeant[known];
      continue;
    }
    const std::optional<uint32_t> point =
        at < text.size() && text[at] == 'u' ? UnicodeEscape(text, at) : std::nullopt;
    if (!point) {
      return Malformed("unknown escape in a string");
    }
    AppendUtf8(out, *point);
  }
  return out;
}

std::string JsonQuote(std::string_view text) {
  constexpr std::string_view kMeant = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t known = kMeant.find(c);
    if (known != std::string_view::npos) {
      out += '\\';
      out += kNames[known];
      ++at;
    } else if (static_cast<uint8_t>(c) >= 0x80) {
      AppendCodePoint(out, TakeCodePoint(text, at));
    } else {
      ++at;
      if (static_cast<uint8_t>(c) < 0x20) {
        AppendEscape(out, static_cast<uint8_t>(c));
      } else {
        out += c;
      }
    }
  }
  return out + "\"";
}

}  // namespace tide::sdk
