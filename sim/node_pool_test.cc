#include "sim/node_pool.h"

#include <catch2/catch.hpp>

#include "common/base/prng.h"
#include "sim/fit.h"

namespace tide::sim {
namespace {

std::vector<std::pair<uint32_t, uint32_t>> Found(const NodePool& pool, uint32_t gpus) {
  std::vector<std::pair<uint32_t, uint32_t>> found;
  for (const Grant& grant : pool.Find(gpus)) {
    found.emplace_back(grant.node, grant.gpus);
  }
  return found;
}

using Grants = std::vector<std::pair<uint32_t, uint32_t>>;

}  // namespace

TEST_CASE("pool: a small job goes where the fewest GPUs are free, lowest node first") {
  NodePool pool(3, 8);
  pool.Take(std::vector<Grant>{{1, 5}, {2, 6}});
  CHECK(Found(pool, 2) == Grants{{2, 2}});
  CHECK(Found(pool, 3) == Grants{{1, 3}});
  CHECK(Found(pool, 4) == Grants{{0, 4}});
  CHECK(pool.free() == 13);
}

TEST_CASE("pool: a large job takes whole nodes, its rest the most free of the others") {
  NodePool pool(4, 8);
  pool.Take(std::vector<Grant>{{0, 3}, {1, 1}});
  CHECK(Found(pool, 16) == Grants{{2, 8}, {3, 8}});
  CHECK(Found(pool, 17) == Grants{{2, 8}, {3, 8}, {1, 1}});
  CHECK(Found(pool, 12) == Grants{{2, 8}, {3, 4}});
  CHECK(Found(pool, 24).empty());
  CHECK(Found(pool, 16 + 8 - 1) == Grants{{2, 8}, {3, 8}, {1, 7}});
}

TEST_CASE("fit: FillIdle takes what the pool would give, largest first") {
  Prng prng(7);
  for (int round = 0; round < 200; ++round) {
    NodePool pool(6, 4);
    for (int i = 0; i < 6; ++i) {
      pool.Take(pool.Find(static_cast<uint32_t>(prng.Below(5)) + 1));
    }
    Demand demand;
    std::vector<uint32_t> sizes;
    for (int i = 0; i < 4; ++i) {
      // Part of a node, or whole nodes: where both are mixed FillIdle may find more.
      const auto size = static_cast<uint32_t>(prng.Below(7)) + 1;
      sizes.push_back(size <= 4 ? size : (size - 3) * 4);
      ++demand[ShapeOf(sizes.back(), 4)];
    }
    std::sort(sizes.rbegin(), sizes.rend());
    const std::vector<uint32_t> counts = pool.Counts();
    const int64_t free_before = pool.free();
    for (const uint32_t gpus : sizes) {
      pool.Take(pool.Find(gpus));
    }
    CHECK(FillIdle(demand, {counts}) == free_before - pool.free());
  }
}

TEST_CASE("fit: a job lies in one zone") {
  const std::vector<std::vector<uint32_t>> zones = {{0, 0, 1}, {0, 0, 1}};  // one idle node each
  CHECK(FillIdle({{Shape{2, 0}, 1}}, zones) == 0);
  CHECK(FillIdle({{Shape{1, 0}, 3}}, zones) == 4);
  CHECK(FillIdle({{Shape{0, 1}, 3}}, zones) == 3);
}

}  // namespace tide::sim
