#include "cli/terminal_filter.h"

#include <catch2/catch.hpp>

namespace tide::cli {
namespace {

// Cleans a text in one piece and byte by byte, which must agree.
std::string Clean(const std::string& text) {
  TerminalFilter whole(true);
  TerminalFilter pieces(true);
  std::string out;
  for (const char c : text) {
    out += pieces.Clean(std::string(1, c));
  }
  CHECK(whole.Clean(text) == out);
  return out;
}

}  // namespace

TEST_CASE("text, colours and progress bars pass a terminal", "[terminal]") {
  for (const std::string text : {"plain\n",
                                 "naïve €𝄞 «»\n",
                                 "\ttab\b\r\n",
                                 "\x1b[1;31mred\x1b[0m",
                                 "\x1b[38:5:9mx\x1b[K",
                                 "\r 12%\x1b[A\x1b[2K",
                                 "\xe2\x96\x88\xe2\x96\x88",
                                 "\xe2\x80\xa6"}) {
    CHECK(Clean(text) == text);
  }
}

TEST_CASE("what drives a terminal does not pass", "[terminal]") {
  CHECK(Clean("a\x1b]0;title\x07z") == "az");
  CHECK(Clean("a\x1b]52;c;c2VjcmV0\x1b\\z") == "az");
  CHECK(Clean("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\z") == "alinkz");
  CHECK(Clean("a\x1bP1$r\x1b\\z") == "az");
  CHECK(Clean("a\x1b"
              "cz") == "az");               // reset
  CHECK(Clean("a\x1b(0z") == "az");         // another character set
  CHECK(Clean("a\x1b[2J\x1b[Hz") == "az");  // the whole screen
  CHECK(Clean("a\x1b[?1049hz") == "az");    // another screen
  CHECK(Clean("a\x1b[6nz") == "az");        // it would answer
  CHECK(Clean("a\xc2\x9b"
              "2Jz") == "az");  // the same in one character
  CHECK(Clean("a\xc2\x9d"
              "0;t\x07z") == "az");
  CHECK(Clean("a\x07\x0e\x7f\x05z") == "az");
  CHECK(Clean("a\xe2\x80\xae"
              "b\xe2\x81\xa6z") == "abz");
}

TEST_CASE("what never ends costs the rest of its line", "[terminal]") {
  CHECK(Clean("a\x1b]0;no end\nnext\n") == "a\nnext\n");
  CHECK(Clean("a\x1b[1;2\nnext\n") == "a\nnext\n");
  CHECK(Clean("a\x1b[" + std::string(100, '1') + "mz").ends_with("z"));
  CHECK(Clean("half \xe2 of \xc2\n") == "half \xe2 of \xc2\n");
}

TEST_CASE("pipes and --raw get all of it", "[terminal]") {
  TerminalFilter off(false);
  CHECK(off.Clean("\x1b]0;t\x07") == "\x1b]0;t\x07");
}

}  // namespace tide::cli
