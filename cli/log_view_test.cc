#include "cli/log_view.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "cli/log_download.h"

namespace tide::cli {
namespace {

// What a terminal shows after these bytes: its lines, by returns and "clear to the end".
std::string Screen(const std::string& bytes) {
  std::string done;
  std::string line;
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n') {
      done += line + "\n";
      line.clear();
      column = 0;
    } else if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
      line.resize(column);
      i += 2;
    } else {
      line.resize(std::max(line.size(), column + 1));
      line[column++] = bytes[i];
    }
  }
  return done + line;
}

TEST_CASE("bytes are shown without what a return overwrites") {
  struct Case {
    std::vector<std::string> pieces;
    std::string screen;
  };
  for (const Case& each :
       std::vector<Case>{{{"a\nb"}, "a\nb"},
                         {{"10%\r20%\r30%\n"}, "30%\n"},
                         {{"windows\r\nline\r\n"}, "windows\nline\n"},
                         {{"long line\rab\n"}, "ab\n"},
                         {{"long line", "\rab", "\n"}, "ab\n"},
                         {{"long line\r", "ab"}, "ab"},
                         {{"\r1%", "\r", "2%", "\r100%", "\n", "end"}, "100%\nend"},
                         {{"a", "b", "c\n"}, "abc\n"},
                         {{"kept\r"}, "kept"},
                         {{"\r\r\n\n"}, "\n\n"}}) {
    ByteView view(true);
    ByteView plain(false);
    std::string shown;
    std::string all;
    for (const std::string& piece : each.pieces) {
      shown += view.Show(piece);
      all += piece;
      CHECK(plain.Show(piece) == piece);
    }
    INFO(all);
    CHECK(Screen(shown) == each.screen);
  }
  // Ten thousand states of a bar in one piece are one.
  std::string bar;
  for (int i = 0; i < 10'000; ++i) {
    bar += "\r" + std::to_string(i);
  }
  CHECK(ByteView(true).Show(bar + "\n").size() < 10);
}

TEST_CASE("lines show their rank, folded, and times only where wanted") {
  const std::string answer =
      "[0] 2026-01-31T12:00:00.000Z a\r b\n[12] - c\n--- rank 3: more ---\n[x] d\n[3] rest";
  LineView view(
      {.fold = true, .color = false, .timestamps = false, .prefixed = true, .stamped = true});
  CHECK(view.Show(answer) == "rank 0 |  b\nrank 12 | c\n--- rank 3: more ---\n[x] d\n");
  CHECK(view.End() == "rank 3 | rest\n");
  CHECK(view.End().empty());
  LineView stamped(
      {.fold = false, .color = false, .timestamps = true, .prefixed = true, .stamped = true});
  CHECK(stamped.Show(answer.substr(0, 36)) == "rank 0 | 2026-01-31T12:00:00.000Z a\r b\n");
  LineView color(
      {.fold = true, .color = true, .timestamps = false, .prefixed = true, .stamped = false});
  const std::string painted = color.Show("[1] x\n[2] y\n");
  CHECK(painted.find("\x1b[0;33mrank 1 | \x1b[0mx\n") == 0);
  CHECK(painted.find("\x1b[0;32mrank 2 | \x1b[0my\n") != std::string::npos);
  LineView single(
      {.fold = true, .color = true, .timestamps = false, .prefixed = false, .stamped = true});
  CHECK(single.Show("2026-01-31T12:00:00.000Z [1] x\n") == "[1] x\n");
}

TEST_CASE("after a break only lines come that were not shown") {
  LineView view(
      {.fold = false, .color = false, .timestamps = false, .prefixed = true, .stamped = true});
  CHECK(view.Since().empty());
  const std::string at = "2026-01-31T12:00:00.";
  CHECK(view.Show("[0] " + at + "100Z a\n[1] " + at + "200Z b\n[1] " + at + "200Z b\n[1] " + at +
                  "200Z half") == "rank 0 | a\nrank 1 | b\nrank 1 | b\n");
  CHECK(view.Since() == at + "100Z");
  view.Restart();
  CHECK(view.Show("[0] " + at + "100Z a\n[0] " + at + "100Z new\n[1] " + at + "150Z old\n[1] " +
                  at + "200Z b\n[1] " + at + "200Z b\n[1] " + at + "200Z half\n[0] " + at +
                  "300Z c\n") == "rank 0 | new\nrank 1 | half\nrank 0 | c\n");
  CHECK(view.Since() == at + "200Z");
}

TEST_CASE("lists of ranks") {
  using Ranks = std::vector<uint32_t>;
  CHECK(RanksOf("all", 3).value() == Ranks{0, 1, 2});
  CHECK(RanksOf("0,3-5,4", 8).value() == Ranks{0, 3, 4, 5});
  CHECK_FALSE(RanksOf("8", 8));
  CHECK_FALSE(RanksOf("3-1", 8));
}

}  // namespace
}  // namespace tide::cli
