#include "sdk/native/box.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <utility>

#include "common/base/prng.h"

namespace tide::sdk {
namespace {

std::string FlawText(std::vector<Box> boxes, std::vector<int64_t> shape) {
  const std::optional<BoxFlaw> flaw = FindFlaw(boxes, shape);
  return flaw ? (flaw->is_hole ? "hole " : "twice ") + BoxText(flaw->where) : "none";
}

// Cuts `box` at random places into `count` boxes.
std::vector<Box> RandomCuts(Prng& random, const Box& box, size_t count) {
  std::vector<Box> boxes = {box};
  for (size_t tries = 0; tries < 100 && boxes.size() < count; ++tries) {
    Box& chosen = boxes[random.Below(boxes.size())];
    Side& side = chosen[random.Below(chosen.size())];
    if (side.stop - side.start > 1) {
      const int64_t cut =
          side.start + 1 +
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(side.stop - side.start - 1)));
      const int64_t stop = std::exchange(side.stop, cut);
      Box other = chosen;
      other[static_cast<size_t>(&side - chosen.data())] = {cut, stop};
      boxes.push_back(other);
    }
  }
  return boxes;
}

TEST_CASE("boxes that fill a tensor have no flaw") {
  CHECK(FlawText({{}}, {}) == "none");
  CHECK(FlawText({}, {3, 0}) == "none");
  CHECK(FlawText({{{0, 3}}}, {3}) == "none");
  CHECK(FlawText({{{0, 2}, {0, 1}}, {{0, 1}, {1, 4}}, {{1, 2}, {1, 4}}}, {2, 4}) == "none");
}

TEST_CASE("a hole and an overlap are named by their place") {
  CHECK(FlawText({}, {}) == "hole []");
  CHECK(FlawText({{}, {}}, {}) == "twice []");
  CHECK(FlawText({}, {2, 4}) == "hole [0:2, 0:4]");
  CHECK(FlawText({{{0, 1}, {0, 4}}}, {2, 4}) == "hole [1:2, 0:4]");
  CHECK(FlawText({{{0, 2}, {0, 1}}, {{0, 2}, {3, 4}}}, {2, 4}) == "hole [0:2, 1:3]");
  CHECK(FlawText({{{0, 3}}, {{2, 5}}}, {5}) == "twice [2:3]");
}

TEST_CASE("random partitions: whole, with one box less, with one box more") {
  Prng random(7);
  for (size_t round = 0; round < 300; ++round) {
    Box whole(1 + random.Below(4));
    std::vector<int64_t> shape;
    for (Side& side : whole) {
      side = {0, static_cast<int64_t>(1 + random.Below(6))};
      shape.push_back(side.stop);
    }
    std::vector<Box> boxes = RandomCuts(random, whole, 1 + random.Below(8));
    CHECK(FlawText(boxes, shape) == "none");
    const Box last = boxes.back();
    boxes.pop_back();
    CHECK(FlawText(boxes, shape).starts_with("hole"));
    boxes.push_back(last);
    boxes.push_back(last);
    CHECK(FlawText(boxes, shape).starts_with("twice"));
  }
}

TEST_CASE("runs are copied in pieces of any length") {
  // [2, 3, 4] bytes of [2, 5, 7], from [0, 1, 2] on, to a tensor [4, 2, 3] turned around.
  const std::vector<RunDim> dims = {{2, 35, 3}, {3, 7, 1}, {4, 1, 6}};
  const Runs runs{.bytes = 1, .dims = dims};
  CHECK(runs.FromExtent() == 1 + 35 + 14 + 3);
  CHECK(runs.ToExtent() == 24);
  std::string from(70, '\0');
  std::iota(from.begin(), from.end(), '\0');
  const std::string source = from.substr(7 + 2);
  std::string expected(24, '\0');
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 4; ++k) {
        expected[(k * 2 + i) * 3 + j] = source[i * 35 + j * 7 + k];
      }
    }
  }
  for (uint64_t step = 1; step <= runs.FromExtent(); ++step) {
    std::string to(24, '\0');
    for (uint64_t begin = 0; begin < runs.FromExtent(); begin += step) {
      const uint64_t until = std::min(begin + step, runs.FromExtent());
      CopyRuns(runs, begin, until, source.data() + begin, to.data());
    }
    CHECK(to == expected);
  }
}

TEST_CASE("a run may be cut anywhere, and gaps hold nothing") {
  const std::vector<RunDim> dims = {{3, 10, 4}};
  const Runs runs{.bytes = 4, .dims = dims};
  const std::string from = "abcd------efgh------ijkl";
  std::string to(12, '.');
  CopyRuns(runs, 2, 12, from.data() + 2, to.data());
  CHECK(to == "..cdef......");
  CopyRuns(runs, 5, 9, from.data() + 5, to.data());
  CHECK(to == "..cdef......");
  CopyRuns(runs, 12, 24, from.data() + 12, to.data());
  CHECK(to == "..cdefghijkl");
}

TEST_CASE("one run is a copy") {
  const Runs runs{.bytes = 5, .dims = {}};
  std::string to(5, '.');
  CopyRuns(runs, 1, 4, "ell", to.data());
  CHECK(to == ".ell.");
}

}  // namespace
}  // namespace tide::sdk
