#include "common/base/sorted_blocks.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "common/base/prng.h"

namespace tide {
namespace {

std::vector<int64_t> Walk(const SortedBlocks<int64_t>& blocks) {
  std::vector<int64_t> values;
  for (auto place = blocks.begin(); place != blocks.end(); place = blocks.Next(place)) {
    values.push_back(blocks[place]);
  }
  return values;
}

}  // namespace

TEST_CASE("sorted blocks hold what a set holds") {
  // How often values come rather than go: sets that grow over many blocks, and that fall empty.
  for (const uint64_t percent : {80, 50, 35}) {
    Prng prng(percent);
    SortedBlocks<int64_t> blocks;
    std::set<int64_t> model;
    for (int step = 0; step < 4'000; ++step) {
      const auto value = static_cast<int64_t>(prng.Below(1'000));
      if (prng.Below(100) < percent) {
        if (model.insert(value).second) {
          blocks.Insert(value);
        }
      } else if (prng.Below(4) == 0) {
        CHECK(blocks.Erase(value) == (model.erase(value) > 0));
      } else if (!model.empty()) {
        // As the estimates do: what is taken lies at the front.
        const auto next = blocks.Erase(blocks.begin());
        model.erase(model.begin());
        CHECK((next == blocks.end()) == model.empty());
      }
      const auto found = model.lower_bound(value);
      const auto place = blocks.LowerBound(value);
      REQUIRE((place == blocks.end()) == (found == model.end()));
      CHECK((found == model.end() || blocks[place] == *found));
      CHECK((blocks.Find(value) != blocks.end()) == model.contains(value));
      CHECK(blocks.empty() == model.empty());
      if (step % 100 == 0) {
        REQUIRE(Walk(blocks) == std::vector<int64_t>(model.begin(), model.end()));
      }
    }
  }
}

TEST_CASE("erasing from sorted blocks leads on to what followed") {
  SortedBlocks<int64_t> blocks;
  for (int64_t value = 0; value < 300; ++value) {
    blocks.Insert(value * 7 % 300);
  }
  std::vector<int64_t> left;
  for (auto place = blocks.begin(); place != blocks.end();) {
    if (blocks[place] % 3 == 0) {
      place = blocks.Erase(place);
    } else {
      left.push_back(blocks[place]);
      place = blocks.Next(place);
    }
  }
  CHECK(left.size() == 200);
  CHECK(Walk(blocks) == left);
}

}  // namespace tide
