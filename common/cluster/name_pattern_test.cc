#include "common/cluster/name_pattern.h"

#include <catch2/catch.hpp>

using namespace tide;

TEST_CASE("places are filled with numbers") {
  const auto name = [](const char* text, uint32_t leaf, uint32_t node) {
    return NamePattern::Parse(text).value().Name(leaf, node);
  };
  CHECK(name("b-l{leaf:02}-n{node:02}", 7, 3) == "b-l07-n03");
  CHECK(name("{leaf}x{leaf:03}", 12, 0) == "12x012");
  CHECK(name("n{node:02}", 0, 123) == "n123");
  CHECK(name("plain", 1, 1) == "plain");
}

TEST_CASE("a pattern says what it uses") {
  const auto pattern = NamePattern::Parse("l{leaf:02}").value();
  CHECK(pattern.Uses(NamePattern::Part::kLeaf));
  CHECK_FALSE(pattern.Uses(NamePattern::Part::kNode));
}

TEST_CASE("braces that say anything else are refused") {
  for (const auto* bad : {"{",
                          "}",
                          "a{leaf",
                          "a}b",
                          "{}",
                          "{rack}",
                          "{leaf:2}",
                          "{leaf:00}",
                          "{leaf:}",
                          "{leaf:0x}",
                          "{leaf:012}",
                          "{{leaf}}",
                          "{leaf }",
                          "{node:-2}"}) {
    INFO(bad);
    CHECK_FALSE(NamePattern::Parse(bad));
  }
}
