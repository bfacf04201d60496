#include "agent/logs/line_matcher.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/prng.h"

namespace tide::agent {
namespace {

std::vector<std::string> Matches(const LinePattern& pattern, const std::string& text) {
  const LineMatcher matcher = LineMatcher::Make(pattern).value();
  std::vector<std::string> lines;
  for (size_t from = 0; from <= text.size();) {
    const LineMatcher::Line line = matcher.Find(text, from);
    if (!line.found()) {
      break;
    }
    lines.push_back(text.substr(line.begin, line.end - line.begin));
    from = line.end + 1;
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("a line matches a text or an expression") {
  const std::string text = "loss 1.5\nLOSS 2\n\nacc (x) 3\nend";
  struct Case {
    LinePattern pattern;
    Lines lines;
  };
  const std::vector<Case> cases = {
      {{"loss"}, {"loss 1.5"}},
      {{"loss", false, true}, {"loss 1.5", "LOSS 2"}},
      {{"^acc"}, {"acc (x) 3"}},
      {{"^x"}, {}},
      {{"\\d$"}, {"loss 1.5", "LOSS 2", "acc (x) 3"}},
      {{"(x)"}, {"acc (x) 3"}},
      {{"(X)", true}, {}},
      {{"(X)", true, true}, {"acc (x) 3"}},
      {{"^$"}, {""}},
      {{"d$"}, {"end"}},
      {{"1.5"}, {"loss 1.5"}},
      {{"2[^9]*end"}, {}},  // would match over the lines' ends
      {{"[^a-z]+"}, {"loss 1.5", "LOSS 2", "acc (x) 3"}},
      {{"2|end"}, {"LOSS 2", "end"}},
      {{"e.d"}, {"end"}},
      {{"\xff"}, {}},
  };
  for (const Case& each : cases) {
    INFO(each.pattern.text);
    CHECK(Matches(each.pattern, text) == each.lines);
  }
  CHECK(Matches({"x*"}, "a\nb\n") == Lines{"a", "b"});
  CHECK(Matches({"ä", false, true}, "Ä\n\xe4\n") == Lines{"Ä"});
}

TEST_CASE("what cannot be searched for is refused with a reason") {
  for (const LinePattern& pattern :
       std::vector<LinePattern>{{""},
                                {"a\nb"},
                                {"(a"},
                                {"a{2000}{2000}"},
                                {"a)|(b"},
                                {"\\Aa"},
                                {"(a)\\1"},
                                {"[z-a]"},
                                {std::string(LineMatcher::kMaxPattern + 1, 'x')}}) {
    INFO(pattern.text);
    const auto made = LineMatcher::Make(pattern);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == ErrorCode::kInvalidArgument);
    CHECK_THAT(made.error().message, Catch::StartsWith("cannot search for this: "));
  }
  CHECK(LineMatcher::Make({"(a", true}));
}

// A pattern that takes other engines exponential time.
TEST_CASE("no pattern takes long") {
  CHECK(Matches({"(a*)*(a|aa)*b$"}, std::string(200'000, 'a') + "\n").empty());
}

TEST_CASE("whole blocks give what single lines give") {
  Prng random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t i = random.Below(40); i > 0; --i) {
      text += "ab\n c"[random.Below(5)];
    }
    static constexpr const char* kPatterns[] = {
        "a", "^b", "a$", "[^b]b", "a|c", "\\s", "^$", "b c"};
    const LinePattern pattern{kPatterns[random.Below(std::size(kPatterns))]};
    Lines expected;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const Lines alone = Matches(pattern, text.substr(at, end - at) + "\n");
      expected.insert(expected.end(), alone.begin(), alone.end());
      at = end + 1;
    }
    INFO(pattern.text << " in " << text);
    REQUIRE(Matches(pattern, text) == expected);
  }
}

}  // namespace
}  // namespace tide::agent
