#include "common/spec/span_text.h"

#include <catch2/catch.hpp>

#include "common/spec/suggest.h"

using namespace tide;

TEST_CASE("durations are read as people write them") {
  struct Case {
    const char* text;
    int64_t millis;
  };
  const auto each = GENERATE(Case{"60s", 60'000},
                             Case{"5m", 300'000},
                             Case{"14d", 14LL * 86'400'000},
                             Case{"1h30m", 5'400'000},
                             Case{"1m500ms", 60'500},
                             Case{"0s", 0},
                             Case{"90m", 5'400'000},
                             Case{"10000d", 10'000LL * 86'400'000});
  INFO(each.text);
  REQUIRE(ParseSpan(each.text));
  CHECK(ParseSpan(each.text)->millis() == each.millis);
  CHECK(ParseSpan(FormatSpan(Duration::Millis(each.millis)))->millis() == each.millis);
}

TEST_CASE("what is no duration says why") {
  const auto* text = GENERATE("",
                              "60",
                              "s",
                              "-5s",
                              "1.5h",
                              "5 m",
                              "5m5m",
                              "5s5m",
                              "1y",
                              "10001d",
                              "9999999999999999999d",
                              "9223372036854775807ms",
                              "10000d1s");
  INFO(text);
  const auto span = ParseSpan(text);
  REQUIRE_FALSE(span);
  CHECK(span.error().message.find("is no duration") != std::string::npos);
}

TEST_CASE("durations are written short") {
  CHECK(FormatSpan(Duration::Seconds(5400)) == "1h30m");
  CHECK(FormatSpan(Duration()) == "0s");
  CHECK(FormatSpan(Duration::Millis(61'001)) == "1m1s1ms");
}

TEST_CASE("the nearest word is suggested, a far one is not") {
  const std::vector<std::string_view> known = {"nodes", "gpus_per_node", "group"};
  CHECK(NearestWord("node", known) == "nodes");
  CHECK(NearestWord("nodse", known).empty());  // two letters of five are too many
  CHECK(NearestWord("gpus", known) == "gpus_per_node");
  CHECK(NearestWord("grupo", known).empty());
  CHECK(NearestWord("x", known).empty());
  CHECK(NearestWord("", known).empty());
}
