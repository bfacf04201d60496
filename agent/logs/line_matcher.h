#pragma once
// What a search of logs looks for in a line: a text, or a regular expression in RE2's syntax.
//
// RE2, because patterns come from users: its time is linear in the text and its memory bounded,
// whatever the pattern. std::regex has neither bound. gRPC brings it along.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide::agent {

struct LinePattern {
  std::string text;
  bool literal = false;
  bool ignore_case = false;
};

class LineMatcher {
 public:
  static constexpr size_t kMaxPattern = 1024;

  // Errors: kInvalidArgument, with what is wrong with the pattern.
  [[nodiscard]] static Result<LineMatcher> Make(const LinePattern& pattern);
  LineMatcher(LineMatcher&&) noexcept;
  LineMatcher& operator=(LineMatcher&&) noexcept;
  ~LineMatcher();

  struct Line {
    size_t begin = std::string_view::npos;  // npos: no line matches
    size_t end = 0;                         // without its newline
    [[nodiscard]] bool found() const { return begin != std::string_view::npos; }
  };
  // The first line of `text` that matches and does not begin before `from`, which is the beginning
  // of a line.   Cost: O(text).
  [[nodiscard]] Line Find(std::string_view text, size_t from) const;

 private:
  struct Regex;
  LineMatcher();
  [[nodiscard]] bool MatchesLine(std::string_view line) const;

  std::string literal_;  // searched for by memmem unless there is a
  std::unique_ptr<Regex> regex_;
};

}  // namespace tide::agent
