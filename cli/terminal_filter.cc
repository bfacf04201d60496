#include "cli/terminal_filter.h"

#include <algorithm>

namespace tide::cli {
namespace {

constexpr char kEsc = '\x1b';
constexpr char kBell = '\x07';
constexpr char kDelete = '\x7f';
constexpr size_t kControlMax = 64;  // bytes of a control sequence

bool IsIn(char c, char first, char last) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= static_cast<unsigned char>(first) && byte <= static_cast<unsigned char>(last);
}

// Reports whether a control sequence, from its parameters to its last byte, only sets colours,
// erases in a line or moves the cursor.
bool IsHarmless(std::string_view sequence) {
  constexpr std::string_view kFinals = "mKABCDG";
  return kFinals.find(sequence.back()) != std::string_view::npos &&
         std::ranges::all_of(sequence.substr(0, sequence.size() - 1),
                             [](char c) { return IsIn(c, '0', '9') || c == ';' || c == ':'; });
}

// Reports whether a character of three bytes turns the direction of text.
bool TurnsText(std::string_view character) {
  return (character[1] == '\x80' && IsIn(character[2], '\xaa', '\xae')) ||
         (character[1] == '\x81' && IsIn(character[2], '\xa6', '\xa9'));
}

}  // namespace

std::string TerminalFilter::Clean(std::string_view data) {
  if (!on_) {
    return std::string(data);
  }
  std::string out;
  out.reserve(data.size());
  for (const char c : data) {
    Take(c, out);
  }
  return out;
}

void TerminalFilter::Take(char c, std::string& out) {
  switch (state_) {
    case State::kText:
      TakeText(c, out);
      return;
    case State::kCharacter:
      TakeCharacter(c, out);
      return;
    case State::kEscape:
      TakeEscape(c);
      return;
    case State::kControl:
      TakeControl(c, out);
      return;
    case State::kString:
    case State::kStringEscape:
      TakeString(c, out);
      return;
  }
}

void TerminalFilter::TakeText(char c, std::string& out) {
  if (c == kEsc) {
    state_ = State::kEscape;
  } else if (c == '\xc2' || c == '\xe2') {
    held_ = c;
    state_ = State::kCharacter;
  } else if (!IsIn(c, '\0', '\x1f') ? c != kDelete
                                    : c == '\n' || c == '\r' || c == '\t' || c == '\b') {
    out += c;
  }
}

void TerminalFilter::TakeCharacter(char c, std::string& out) {
  if (!IsIn(c, '\x80', '\xbf')) {  // half a character
    out += held_;
    state_ = State::kText;
    TakeText(c, out);
    return;
  }
  held_ += c;
  if (held_.front() == '\xc2') {  // U+0080 to U+00BF: controls, then letters
    state_ = State::kText;
    if (c == '\x9b') {
      held_.clear();
      state_ = State::kControl;
    } else if (c == '\x90' || c == '\x98' || IsIn(c, '\x9d', '\x9f')) {
      state_ = State::kString;
    } else if (!IsIn(c, '\x80', '\x9f')) {
      out += held_;
    }
  } else if (held_.size() == 3) {
    out += TurnsText(held_) ? "" : held_;
    state_ = State::kText;
  }
}

void TerminalFilter::TakeEscape(char c) {
  if (c == '[') {
    held_.clear();
    state_ = State::kControl;
  } else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_') {
    state_ = State::kString;
  } else if (!IsIn(c, ' ', '/') && c != kEsc) {  // one more follows those
    state_ = State::kText;
  }
}

void TerminalFilter::TakeControl(char c, std::string& out) {
  if (c == kEsc) {
    state_ = State::kEscape;
    return;
  }
  held_ += c;
  if (IsIn(c, '@', '~')) {
    if (IsHarmless(held_)) {
      out += "\x1b[" + held_;
    }
    state_ = State::kText;
  } else if (!IsIn(c, ' ', '?') || held_.size() > kControlMax) {
    state_ = State::kText;
    TakeText(c, out);
  }
}

// One that never ends costs the rest of its line.
void TerminalFilter::TakeString(char c, std::string& out) {
  if (c == '\n') {
    out += c;
    state_ = State::kText;
  } else if (c == kBell || (state_ == State::kStringEscape && c == '\\')) {
    state_ = State::kText;
  } else {
    state_ = c == kEsc ? State::kStringEscape : State::kString;
  }
}

}  // namespace tide::cli
