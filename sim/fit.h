#pragma once
// How much of the idle GPUs the waiting jobs could use. Whether jobs fit depends only on how many
// nodes of a zone have how many GPUs free, so that is all this keeps.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace tide::sim {

// What a job asks for: `whole` nodes with all their GPUs, and `part` GPUs of one more node.
struct Shape {
  uint32_t whole = 0;
  uint32_t part = 0;
  auto operator<=>(const Shape&) const = default;
};

[[nodiscard]] inline Shape ShapeOf(uint32_t gpus, uint32_t gpus_per_node) {
  return {gpus / gpus_per_node, gpus % gpus_per_node};
}

// Waiting jobs by shape, largest first.
using Demand = std::map<Shape, uint32_t, std::greater<>>;

// GPUs that jobs of `demand` could hold of those idle, filled largest first, each job within one
// zone.
//   counts: [zone][free GPUs] -> nodes with as many free; each zone has gpus_per_node + 1 entries.
//   Cost: O(different shapes × zones × gpus_per_node + jobs that fit).
[[nodiscard]] int64_t FillIdle(const Demand& demand, std::vector<std::vector<uint32_t>> counts);

}  // namespace tide::sim
