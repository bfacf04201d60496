#include "sim/fit.h"

namespace tide::sim {
namespace {

// Takes one job of `shape` out of a zone's counts; false, and nothing taken, when it does not fit.
bool TakeFrom(std::vector<uint32_t>& zone, const Shape& shape) {
  const size_t full = zone.size() - 1;
  if (zone[full] < shape.whole) {
    return false;
  }
  zone[full] -= shape.whole;
  if (shape.part == 0) {
    return true;
  }
  for (size_t free = shape.part; free <= full; ++free) {
    if (zone[free] > 0) {
      --zone[free];
      ++zone[free - shape.part];
      return true;
    }
  }
  zone[full] += shape.whole;
  return false;
}

}  // namespace

int64_t FillIdle(const Demand& demand, std::vector<std::vector<uint32_t>> counts) {
  int64_t used = 0;
  for (const auto& [shape, jobs] : demand) {
    uint32_t left = jobs;
    for (std::vector<uint32_t>& zone : counts) {
      const auto gpus_per_node = static_cast<int64_t>(zone.size()) - 1;
      while (left > 0 && TakeFrom(zone, shape)) {
        used += shape.whole * gpus_per_node + shape.part;
        --left;
      }
    }
  }
  return used;
}

}  // namespace tide::sim
