#include "cli/table.h"

#include <catch2/catch.hpp>

#include "cli/job_view.h"

using namespace tide;
using namespace tide::cli;

namespace {

Table Example() {
  Table table({{.title = "ID"},
               {.title = "NAME", .min_width = 6},
               {.title = "N", .right = true},
               {.title = "ZONE", .drop_rank = 1},
               {.title = "NOTE", .min_width = 5, .hide_empty = true}});
  table.Add({{"j-1"}, {"训练任务"}, {"64"}, {"A"}, {"12 nodes short in zone A"}});
  table.Add({{"j-12"}, {"a-long-name-here"}, {"4"}, {"cross-ok"}, {""}});
  return table;
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    longest = std::max(longest, DisplayWidth(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

}  // namespace

TEST_CASE("width is counted in cells") {
  CHECK(DisplayWidth("abc") == 3);
  CHECK(DisplayWidth("训练") == 4);
  CHECK(DisplayWidth("e\u0301") == 1);
  CHECK(DisplayWidth("😀") == 2);
  CHECK(DisplayWidth("⏸ held") == 6);
  CHECK(DisplayWidth("✔▶◷✕") == 4);
  CHECK(DisplayWidth("") == 0);
}

TEST_CASE("cutting keeps to the width and to whole characters") {
  CHECK(CutToWidth("abcdef", 6) == "abcdef");
  CHECK(CutToWidth("abcdef", 4) == "abc…");
  CHECK(CutToWidth("训练任务", 5) == "训练…");
  CHECK(CutToWidth("训练任务", 4) == "训…");  // half a character is none
  CHECK(CutToWidth("abc", 1) == "…");
}

TEST_CASE("text from elsewhere cannot steer the terminal") {
  CHECK(Printable("a\x1b[2Jb") == "a?[2Jb");
  CHECK(Printable("two\nlines\t!") == "two lines !");
  CHECK(Printable("\xFFx\x7F") == "?x?");
  CHECK(Printable("a\u202Eb") == "a?b");
  CHECK(Printable("训练 é") == "训练 é");
}

TEST_CASE("without a width nothing is cut") {
  CHECK(Example().Render({}) ==
        "ID    NAME               N  ZONE      NOTE\n"
        "j-1   训练任务          64  A         12 nodes short in zone A\n"
        "j-12  a-long-name-here   4  cross-ok  -\n");
}

TEST_CASE("a narrow terminal gets narrow lines") {
  const size_t width = GENERATE(24U, 30U, 40U, 50U, 58U, 80U);
  Style style;
  style.width = width;
  const std::string text = Example().Render(style);
  INFO(text);
  CHECK(LongestLine(text) <= width);
  CHECK((text.find("…") != std::string::npos) == (width < 66));
  CHECK((text.find("ZONE") != std::string::npos) == (width >= 37));
}

TEST_CASE("columns where nothing is said are left out") {
  Table table({{.title = "ID"}, {.title = "NOTE", .hide_empty = true}});
  table.Add({{"j-1"}, {""}});
  CHECK(table.Render({}) == "ID\nj-1\n");
}

TEST_CASE("colour does not count as width, and accessible output has none of it") {
  Style style;
  style.color = true;
  Table table({{.title = "A"}, {.title = "B"}});
  table.Add({{"x", Tone::kGood}, {"y"}});
  CHECK(table.Render(style) == "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[32mx\x1b[0m  y\n");
  style.color = false;
  style.accessible = true;
  CHECK(Example().Render(style) ==
        "ID: j-1\nNAME: 训练任务\nN: 64\nZONE: A\nNOTE: 12 nodes short in zone A\n"
        "\nID: j-12\nNAME: a-long-name-here\nN: 4\nZONE: cross-ok\n");
  CHECK(StateCell("running", style).text == "running");
  CHECK(StateCell("running", Style{}).text == "▶ running");
}

TEST_CASE("who decides about colour") {
  CHECK(WantsColor({.terminal = true}));
  CHECK_FALSE(WantsColor({.terminal = false}));
  CHECK_FALSE(WantsColor({.terminal = true, .no_color = "1"}));
  CHECK_FALSE(WantsColor({.terminal = true, .term = "dumb"}));
  CHECK_FALSE(WantsColor({.terminal = true, .clicolor = "0"}));
  CHECK(WantsColor({.terminal = false, .clicolor_force = "1"}));
  CHECK_FALSE(WantsColor({.terminal = false, .clicolor_force = "0"}));
  CHECK_FALSE(WantsColor({.terminal = true, .no_color = "1", .clicolor_force = "1"}));
  CHECK_FALSE(WantsColor({.terminal = true, .no_color_flag = true, .clicolor_force = "1"}));
}

TEST_CASE("times and numbers are short") {
  CHECK(ShortNumber(950) == "950");
  CHECK(ShortNumber(18'400) == "18.4k");
  CHECK(ShortNumber(40'000) == "40k");
  CHECK(ShortNumber(999'999) == "1M");
  CHECK(ShortNumber(2'500'000) == "2.5M");
  CHECK(ShortTime(*ParseRfc3339("2026-01-31T12:00:05.250Z")) == "2026-01-31 12:00:05Z");
}
