#pragma once
// Computations on the elements: sums, copies, and numbers whose sum is known.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tide::allreduce {

// Adds `others[i][k]` to `to[k]` for every i. Tile by tile, so that sums stay in the nearest cache.
//   Needs memory that does not overlap.
void AddAll(float* to, std::span<const float* const> others, size_t count);

// Copies `from` to every one of `to`, tile by tile.
void CopyToAll(const float* from, std::span<float* const> to, size_t count);

// A vector of small integers that differ by rank, place and iteration. Sums over at most
// kMostRanks ranks are exact in float32, in any order; one rank in the place of another shows.
inline constexpr uint32_t kMostRanks = 4096;

struct Pattern {
  uint32_t iteration = 0;
  uint32_t rank = 0;   // over all nodes
  uint32_t ranks = 0;  // over all nodes
};

void FillPattern(const Pattern& pattern, std::span<float> vector);

// Returns the sum of all ranks' elements at `index`.
[[nodiscard]] float ExpectedSum(const Pattern& pattern, size_t index);

struct WrongElements {
  uint64_t count = 0;
  uint64_t index = 0;  // the first one
  float expected = 0;
  float found = 0;
};
// Compares every element, bit for bit.
[[nodiscard]] WrongElements FindWrong(const Pattern& pattern, std::span<const float> vector);

}  // namespace tide::allreduce
