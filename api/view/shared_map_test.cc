#include "api/view/shared_map.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/prng.h"

namespace tide::api {
namespace {

using Map = SharedMap<int>;
using Pairs = std::vector<std::pair<uint64_t, int>>;

TEST_CASE("a shared map is a map, forwards and backwards, whatever is done to it") {
  Prng prng(7);
  Map map;
  std::map<uint64_t, int> plain;
  for (int step = 0; step < 5000; ++step) {
    const uint64_t key = prng.Below(2000) * (1 + prng.Below(3));
    if (prng.Below(3) == 0) {
      map.Erase(key);
      plain.erase(key);
    } else {
      map.Set(key, std::make_shared<const int>(step));
      plain[key] = step;
    }
    CHECK((map.find(key) != map.end()) == plain.contains(key));
  }
  Pairs forwards;
  for (const auto& [key, value] : map) {
    forwards.emplace_back(key, *value);
  }
  Pairs backwards;
  for (auto it = map.rbegin(); it != map.rend(); ++it) {
    backwards.emplace_back(it->first, *it->second);
  }
  CHECK(map.size() == plain.size());
  CHECK(forwards == Pairs(plain.begin(), plain.end()));
  CHECK(backwards == Pairs(plain.rbegin(), plain.rend()));
  for (const auto& [key, value] : plain) {
    map.Erase(key);
  }
  CHECK(map.empty());
  CHECK(map.begin() == map.end());
}

TEST_CASE("a copy of a shared map stays as it is, and shares what did not change") {
  Map map;
  for (uint64_t key = 0; key < 3000; ++key) {
    map.Set(key, std::make_shared<const int>(1));
  }
  const Map before = map;
  map.Set(5, std::make_shared<const int>(2));
  map.Erase(2999);
  CHECK(*before.find(5)->second == 1);
  CHECK(before.find(2999) != before.end());
  CHECK(before.size() == 3000);
  CHECK(*map.find(5)->second == 2);
  CHECK(map.size() == 2999);
  CHECK(&*before.find(1500) == &*map.find(1500));
  CHECK(&*before.find(6) != &*map.find(6));
}

// The sum of a chunk's rows.
struct Sum {
  int64_t sum = 0;
  void Add(const int& row) { sum += row; }
  void Remove(const int& row) { sum -= row; }
};

TEST_CASE("each chunk of a shared map counts its own rows, whatever is done to it") {
  Prng prng(11);
  SharedMap<int, Sum> map;
  SharedMap<int, Sum> before;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t key = prng.Below(2000);
    if (prng.Below(3) == 0) {
      map.Erase(key);
    } else {
      map.Set(key, std::make_shared<const int>(step));
    }
    if (step == 1500) {
      before = map;
    }
  }
  for (const auto* each : {&map, &before}) {
    for (const auto& [number, chunk] : each->chunks()) {
      int64_t sum = 0;
      for (const auto& [key, row] : chunk->rows) {
        CHECK(SharedMap<int, Sum>::ChunkOf(key) == number);
        sum += *row;
      }
      CHECK(chunk->tally.sum == sum);
      CHECK_FALSE(chunk->rows.empty());
    }
  }
}

}  // namespace
}  // namespace tide::api
