// What log writers put before a kernel message, and how to take it off again.

#include "common/health/cursor.h"
#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

constexpr int kMaxEnvelopeParts = 6;
constexpr size_t kMaxBracket = 40;
constexpr int kMaxSyslogWords = 5;

// "4,1227,437812449932,c;" of /dev/kmsg.
bool TakeKmsgHeader(Cursor& at) {
  Cursor c = at;
  if (!c.TakeNumber(6) || !c.Take(",") || !c.TakeNumber(18) || !c.Take(",") || !c.TakeNumber(18) ||
      !c.Take(",")) {
    return false;
  }
  c.TakeWhile([](char ch) { return IsWord(ch) || ch == ',' || ch == '-' || ch == '='; });
  if (!c.Take(";")) {
    return false;
  }
  at = c;
  return true;
}

// "<4>" of pstore and of raw syslog.
bool TakeLevel(Cursor& at) {
  Cursor c = at;
  if (!c.Take("<") || !c.TakeNumber(4) || !c.Take(">")) {
    return false;
  }
  at = c;
  return true;
}

// "[ 123.456]", "[Fri Apr  5 21:29:39 2024]", "[ T1234]", "[2026-04-22T21:27:51.29Z]:".
bool TakeBracket(Cursor& at) {
  Cursor c = at;
  if (!c.Take("[")) {
    return false;
  }
  const std::string_view inside = c.TakeWhile([](char ch) {
    return IsWord(ch) || ch == ' ' || ch == '.' || ch == ':' || ch == '-' || ch == '+' || ch == ',';
  });
  if (inside.empty() || inside.size() > kMaxBracket || !c.Take("]")) {
    return false;
  }
  if (c.Peek() == ':') {
    c.Skip(1);
  }
  at = c;
  return true;
}

std::string_view TakeToken(Cursor& at) {
  return at.TakeWhile([](char ch) { return !IsBlank(ch); });
}

// "kern  :warn  : 2025-01-21T04:41:44,284433+00:00" of dmesg -x, "kern: warning:" of Talos, the
// latter also behind the name of the machine.
bool TakeFacility(Cursor& at) {
  Cursor c = at;
  if (!c.rest().starts_with("kern")) {
    const std::string_view host = TakeToken(c);
    if (host.size() < 2 || !host.ends_with(':') || !c.TakeBlanks()) {
      return false;
    }
  }
  if (!c.Take("kern")) {
    return false;
  }
  c.SkipBlanks();
  if (!c.Take(":")) {
    return false;
  }
  c.SkipBlanks();
  if (c.TakeWhile(IsLetter).empty()) {
    return false;
  }
  c.SkipBlanks();
  if (!c.Take(":")) {
    return false;
  }
  c.SkipBlanks();
  if (IsDigit(c.Peek())) {
    TakeToken(c);  // the time
  }
  at = c;
  return true;
}

// "Nov 29 11:28:11 host kernel:", "2025-01-21T04:41:44+0000 host kernel:", "kernel:". Words before
// it that end in a colon belong to some other program's line.
bool TakeSyslog(Cursor& at) {
  Cursor c = at;
  for (int words = 0; words <= kMaxSyslogWords; ++words) {
    if (c.Take("kernel:")) {
      at = c;
      return true;
    }
    const std::string_view word = TakeToken(c);
    if (word.empty() || word.ends_with(':') || !c.TakeBlanks()) {
      return false;
    }
  }
  return false;
}

std::string_view FirstLine(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (IsBlank(text.back()) || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

std::string_view StripEnvelope(std::string_view line) {
  Cursor at(FirstLine(line));
  at.SkipBlanks();
  for (int part = 0; part < kMaxEnvelopeParts; ++part) {
    if (!TakeKmsgHeader(at) && !TakeLevel(at) && !TakeBracket(at) && !TakeFacility(at) &&
        !TakeSyslog(at)) {
      break;
    }
    at.SkipBlanks();
  }
  return at.rest();
}

std::string UnescapeKmsg(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' &&
        HexDigit(text[i + 2]) >= 0 && HexDigit(text[i + 3]) >= 0) {
      plain.push_back(static_cast<char>(HexDigit(text[i + 2]) * 16 + HexDigit(text[i + 3])));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

}  // namespace tide::health
