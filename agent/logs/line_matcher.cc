#include "agent/logs/line_matcher.h"

#include <re2/re2.h>

#include <cstring>
#include <utility>

namespace tide::agent {
namespace {

constexpr int64_t kMaxMemory = 8 << 20;  // of an expression's automata
constexpr std::string_view kMeta = "\\.+*?()|[]{}^$";

// The line that holds byte `at` of `text`.
LineMatcher::Line LineAround(std::string_view text, size_t at) {
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t after = text.find('\n', at);
  return {before == std::string_view::npos ? 0 : before + 1,
          after == std::string_view::npos ? text.size() : after};
}

}  // namespace

struct LineMatcher::Regex {
  Regex(const std::string& text, const RE2::Options& options) : expression(text, options) {}
  RE2 expression;
};

LineMatcher::LineMatcher() = default;
LineMatcher::LineMatcher(LineMatcher&&) noexcept = default;
LineMatcher& LineMatcher::operator=(LineMatcher&&) noexcept = default;
LineMatcher::~LineMatcher() = default;

Result<LineMatcher> LineMatcher::Make(const LinePattern& pattern) {
  const auto refuse = [](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, "cannot search for this: " + why);
  };
  if (pattern.text.empty() || pattern.text.size() > kMaxPattern) {
    return refuse("a pattern has 1 to " + std::to_string(kMaxPattern) + " bytes");
  }
  if (pattern.text.find('\n') != std::string::npos) {
    return refuse("lines are searched one by one, so a pattern has no line break");
  }
  LineMatcher matcher;
  const bool plain = pattern.literal || pattern.text.find_first_of(kMeta) == std::string::npos;
  if (plain && !pattern.ignore_case) {
    matcher.literal_ = pattern.text;
    return matcher;
  }
  RE2::Options options;
  options.set_log_errors(false);
  options.set_literal(pattern.literal);
  options.set_case_sensitive(!pattern.ignore_case);
  options.set_never_nl(true);
  options.set_never_capture(true);
  options.set_max_mem(kMaxMemory);
  if (const RE2 alone(pattern.text, options); !alone.ok()) {
    return refuse(alone.error() + "; for a plain text say so (tide logs -F)");
  }
  if (!pattern.literal && (pattern.text.find("\\A") != std::string::npos ||
                           pattern.text.find("\\z") != std::string::npos)) {
    return refuse("write ^ and $ for the beginning and the end of a line");
  }
  // Whole blocks are searched at once, so ^ and $ have to know lines.
  const std::string text = pattern.literal ? pattern.text : "(?m:" + pattern.text + ")";
  matcher.regex_ = std::make_unique<Regex>(text, options);
  return matcher.regex_->expression.ok() ? Result<LineMatcher>(std::move(matcher))
                                         : refuse(matcher.regex_->expression.error());
}

bool LineMatcher::MatchesLine(std::string_view line) const {
  const re2::StringPiece piece(line.data(), line.size());
  return regex_->expression.Match(piece, 0, piece.size(), RE2::UNANCHORED, nullptr, 0);
}

LineMatcher::Line LineMatcher::Find(std::string_view text, size_t from) const {
  if (regex_ == nullptr) {
    if (from >= text.size()) {
      return {};
    }
    const void* at =
        ::memmem(text.data() + from, text.size() - from, literal_.data(), literal_.size());
    return at == nullptr
               ? Line{}
               : LineAround(text, static_cast<size_t>(static_cast<const char*>(at) - text.data()));
  }
  const re2::StringPiece piece(text.data(), text.size());
  while (from < text.size()) {
    re2::StringPiece match;
    if (!regex_->expression.Match(piece, from, text.size(), RE2::UNANCHORED, &match, 1)) {
      return {};
    }
    const Line line = LineAround(text, static_cast<size_t>(match.data() - text.data()));
    // A match may reach over a line's end, as that of [^a]+ does; no line before begins one.
    if (MatchesLine(text.substr(line.begin, line.end - line.begin)) && line.begin < text.size()) {
      return line;
    }
    from = line.end + 1;
  }
  return {};
}

}  // namespace tide::agent
