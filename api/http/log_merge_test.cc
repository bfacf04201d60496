#include "api/http/log_merge.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "api/http/log_lines.h"
#include "common/base/prng.h"

namespace tide::api {
namespace {

constexpr int64_t kMs = 1'000'000;

MergeInput Line(int64_t at, int64_t came = 0) {
  return {.open = true, .at = at, .came = came, .caught_up = true, .asked = 0};
}

MergeInput Silent(bool caught_up = true, int64_t asked = 0) {
  return {.open = true, .at = {}, .came = 0, .caught_up = caught_up, .asked = asked};
}

TEST_CASE("merge: the oldest line goes first, once nobody can have an older one") {
  const MergeInput over{.open = false, .at = {}, .came = 0, .caught_up = false, .asked = 0};
  struct Case {
    std::vector<MergeInput> inputs;
    bool follow;
    int64_t now;
    std::optional<size_t> next;
    int64_t look_again;
  };
  for (const Case& each :
       std::vector<Case>{{{}, false, 0, {}, 0},
                         {{over, over}, false, 0, {}, 0},
                         {{Line(7)}, false, 0, 0, 0},
                         {{Line(7), Line(5)}, false, 0, 1, 0},
                         {{Line(5), Line(5)}, false, 0, 0, 0},
                         {{Line(5), over}, false, 0, 0, 0},
                         {{Line(5), Silent()}, false, 1000 * kMs, {}, 0},
                         {{Line(5, 10 * kMs), Silent()}, true, 10 * kMs, {}, 110 * kMs},
                         {{Line(5, 10 * kMs), Silent()}, true, 110 * kMs, 0, 0},
                         {{Line(5, 10 * kMs), over}, true, 10 * kMs, 0, 0},
                         {{Line(5, 10 * kMs), Silent(false)}, true, 110 * kMs, {}, 2000 * kMs},
                         {{Line(5, 10 * kMs), Silent(false)}, true, 2000 * kMs, 0, 0},
                         {{Silent(), Silent()}, true, 0, {}, 0}}) {
    const MergeChoice choice = ChooseNext(each.inputs, each.follow, each.now);
    CHECK(choice.next == each.next);
    CHECK(choice.look_again == each.look_again);
  }
}

TEST_CASE("merge: any inputs come out sorted, each in its own order") {
  Prng random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<int64_t>> lines(1 + random.Below(5));
    std::vector<int64_t> all;
    for (auto& each : lines) {
      for (uint64_t i = random.Below(20); i > 0; --i) {
        each.push_back(static_cast<int64_t>(random.Below(50)));
        all.push_back(each.back());
      }
      std::ranges::sort(each);
    }
    std::vector<size_t> used(lines.size(), 0);
    std::vector<int64_t> merged;
    while (true) {
      std::vector<MergeInput> inputs;
      for (size_t i = 0; i < lines.size(); ++i) {
        const bool more = used[i] < lines[i].size();
        inputs.push_back({.open = more, .at = {}, .came = 0, .caught_up = false, .asked = 0});
        if (more) {
          inputs.back().at = lines[i][used[i]];
        }
      }
      const MergeChoice choice = ChooseNext(inputs, false, 0);
      if (!choice.next) {
        break;
      }
      merged.push_back(lines[*choice.next][used[*choice.next]++]);
    }
    std::ranges::sort(all);
    CHECK(merged == all);
  }
}

LogPiece Piece(std::string data, std::vector<LogMark> marks) {
  LogPiece piece;
  piece.event = LogEvent::kData;
  piece.data = std::move(data);
  piece.marks = std::move(marks);
  return piece;
}

std::string Taken(LineSplitter& lines) {
  std::string all;
  while (!lines.empty()) {
    const LogLine line = lines.Take();
    all += std::to_string(line.at) + " " + line.text + ";";
  }
  return all;
}

TEST_CASE("lines know when they began, over pieces and marks") {
  LineSplitter lines;
  lines.Add(Piece("a\nb", {{0, 1}, {1, 2}, {2, 3}}));
  CHECK(Taken(lines) == "1 a;");
  lines.Add(Piece("b\n\nc\r", {{0, 4}, {2, 5}, {3, 0}}));
  CHECK(Taken(lines) == "3 bb;5 ;");
  lines.Add(Piece("d", {{0, 9}}));
  CHECK(lines.empty());
  lines.End();
  CHECK(Taken(lines) == "5 c\rd;");
  lines.End();
  CHECK(lines.empty());
  lines.Add(Piece("x\n", {{70, 3}}));  // past the end: of an agent gone wrong
  CHECK(Taken(lines) == "9 x;");
}

TEST_CASE("a line without end is cut") {
  LineSplitter lines;
  lines.Add(Piece(std::string(LineSplitter::kLongestLine * 2 + 3, 'x') + "\n", {}));
  CHECK(lines.Take().text.size() == LineSplitter::kLongestLine);
  CHECK(lines.Take().text.size() == LineSplitter::kLongestLine);
  CHECK(lines.Take().text.size() == 3);
  CHECK(lines.empty());
}

}  // namespace
}  // namespace tide::api
