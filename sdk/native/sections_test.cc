#include "sdk/native/sections.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/prng.h"
#include "sdk/native/testing_folder.h"

namespace tide::sdk {
namespace {

using Words = std::vector<int64_t>;

std::string Packed(const Words& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(int64_t)};
}

struct RanksFile {
  explicit RanksFile(const std::vector<std::pair<std::string, std::string>>& sections) {
    std::string all;
    for (const auto& [text, table] : sections) {
      records.push_back(RecordOf(text, table));
      all += text + table;
    }
    Write(all);
  }

  void Write(const std::string& now) {
    content = now;
    REQUIRE(ReplaceFile(folder.path + "/RANKS.bin", content));
    fd = Fd(::open((folder.path + "/RANKS.bin").c_str(), O_RDONLY | O_CLOEXEC));
  }

  TestingFolder folder;
  std::string content;
  std::vector<SectionRecord> records;
  Fd fd;
};

const std::vector<uint64_t> kDims = {2, 0, 1};

Result<Words> Find(const RanksFile& file, const Words& places, const Words& borders) {
  Words found;
  TIDE_TRY(FindRows(
      file.fd.get(), file.records, {.dims = kDims, .places = places, .borders = borders}, found));
  return found;
}

TEST_CASE("rows that hold something of a box are found, in the order of ranks") {
  const RanksFile file({{"a", Packed({0, 100, 0, 2, 0, 3, 2, 7, 0, 5})},
                        {"", ""},
                        {"text", Packed({0, 50, 2, 4, 0, 3, 1, 9})}});
  CHECK(*Find(file, {0, -1, -1}, {1, 3, 2, 3}) ==
        Words{0, 0, 100, 0, 2, 0, 3, 2, 0, 50, 2, 4, 0, 3});
  CHECK(*Find(file, {0, -1, -1}, {2, 3, 0, 3}) == Words{2, 0, 50, 2, 4, 0, 3});
  CHECK(*Find(file, {0, -1, -1}, {1, 1, 0, 3}) == Words{});
  CHECK(*Find(file, {-1, 0, -1}, {}) == Words{2, 1, 9});
  CHECK(*Find(file, {-1, -1, 0}, {4, 9}) == Words{0, 2, 7, 0, 5});
  CHECK(*Find(file, {-1, -1, -1}, {}) == Words{});
}

TEST_CASE("every flipped bit of the file is named with its rank") {
  const std::vector<std::pair<std::string, std::string>> sections = {
      {"first", Packed({2, 7, 0, 5})}, {"second", Packed({1, 9})}};
  RanksFile file(sections);
  const std::string good = file.content;
  const size_t first = sections[0].first.size() + sections[0].second.size();
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    file.Write(bad);
    const Result<Words> found = Find(file, {0, -1, -1}, {0, 1, 0, 1});
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::kCorrupt);
    CHECK(found.error().message == "rank " + std::string(bit / 8 < first ? "0" : "1") +
                                       ": the section does not match its CRC-32");
  }
  file.Write(good.substr(0, good.size() - 1));
  CHECK(Find(file, {0, -1, -1}, {0, 1, 0, 1}).error().message ==
        "rank 1: the file ends at byte " + std::to_string(good.size() - 1));
}

TEST_CASE("a table that does not fit is an error, whatever it holds") {
  for (const Words& table : std::vector<Words>{
           {3, 0}, {-1, 0}, {0}, {0, 1, 0, 1, 0}, {2, 0, 0, 1, 1}, {INT64_MAX, 1, 1}}) {
    const RanksFile file({{"", Packed(table)}});
    CHECK(Find(file, {-1, -1, 0}, {0, 9}).error().message ==
          "rank 0: the table of boxes does not fit");
  }
  CHECK_FALSE(WordsOf("1234567"));
  Prng random(3);
  for (size_t round = 0; round < 2000; ++round) {
    Words table(random.Below(20));
    for (int64_t& word : table) {
      word = static_cast<int64_t>(random.Below(6)) - 1;
    }
    const RanksFile file({{"", Packed(table)}});
    static_cast<void>(Find(file, {0, 4, 4}, {0, 3, 0, 3, 0, 3}));
  }
}

}  // namespace
}  // namespace tide::sdk
