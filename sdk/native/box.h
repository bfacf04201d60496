#pragma once
// Boxes of a tensor, [start, stop) in each dimension, and the runs of bytes that two of them share.
// The same in Python: sdk/python/tide/checkpoint/boxes.py, which also finds the runs.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tide::sdk {

struct Side {
  int64_t start = 0;
  int64_t stop = 0;
  auto operator<=>(const Side&) const = default;
};
using Box = std::vector<Side>;  // without dimensions: empty, and one element

// "[0:4, 2:6]"
[[nodiscard]] std::string BoxText(const Box& box);

// Why boxes are no partition of a tensor. where: a box that nobody has, or that several have.
struct BoxFlaw {
  bool is_hole = false;
  Box where;
};

// Nothing where `boxes` hold every element of the tensor exactly once.
//   boxes: [box][dimension]; none is empty, all are within the shape.
//   Cost: O(n log n) for boxes in a grid.
[[nodiscard]] std::optional<BoxFlaw> FindFlaw(std::span<const Box> boxes,
                                              std::span<const int64_t> shape);

// Finds it for boxes that are given by their borders: first and last + 1 in each dimension, by
// turns. boxes: in any order.
[[nodiscard]] std::optional<BoxFlaw> FindFlawIn(std::vector<const int64_t*> boxes,
                                                std::span<const int64_t> shape);

// One dimension of a pattern of runs.
struct RunDim {
  uint64_t count = 0;        // at least 1
  uint64_t from_stride = 0;  // bytes from one to the next; at least 1
  uint64_t to_stride = 0;
};

// Runs of `bytes` bytes that do not overlap. dims: outermost first, so that the runs come in the
// order of where they are taken from; none: one run.
struct Runs {
  uint64_t bytes = 0;
  std::span<const RunDim> dims;

  // From the first byte of the first run to the end of the last one.
  [[nodiscard]] uint64_t FromExtent() const;
  [[nodiscard]] uint64_t ToExtent() const;
};

// Copies what of the runs lies in [begin, until) of where they are taken from; 0: the first run's
// first byte.
//   from: the byte at `begin`.   to: where the first run goes.
void CopyRuns(const Runs& runs, uint64_t begin, uint64_t until, const char* from, char* to);

}  // namespace tide::sdk
