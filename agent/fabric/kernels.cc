#include "agent/fabric/kernels.h"

#include <algorithm>
#include <cstring>

namespace tide::allreduce {
namespace {

constexpr size_t kTile = 1024;  // elements: 4 KiB
constexpr uint32_t kPeriod = 61;

void Add(float* __restrict to, const float* __restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

// The part that all ranks have in common. 32 bits are enough: the period is what counts.
uint32_t Common(uint32_t iteration, uint32_t index) {
  return (index * 7U + (index >> 12U) + iteration * 13U) % kPeriod;
}

}  // namespace

void AddAll(float* to, std::span<const float* const> others, size_t count) {
  for (size_t begin = 0; begin < count; begin += kTile) {
    const size_t length = std::min(kTile, count - begin);
    for (const float* other : others) {
      Add(to + begin, other + begin, length);
    }
  }
}

void CopyToAll(const float* from, std::span<float* const> to, size_t count) {
  for (size_t begin = 0; begin < count; begin += kTile) {
    const size_t length = std::min(kTile, count - begin);
    for (float* target : to) {
      std::memcpy(target + begin, from + begin, length * sizeof(float));
    }
  }
}

void FillPattern(const Pattern& pattern, std::span<float> vector) {
  const auto count = static_cast<uint32_t>(vector.size());
  float* const to = vector.data();
  for (uint32_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(static_cast<int32_t>(Common(pattern.iteration, i) + pattern.rank));
  }
}

float ExpectedSum(const Pattern& pattern, size_t index) {
  const uint32_t common = Common(pattern.iteration, static_cast<uint32_t>(index));
  const uint32_t sum = pattern.ranks * common + pattern.ranks * (pattern.ranks - 1) / 2;
  return static_cast<float>(static_cast<int32_t>(sum));
}

WrongElements FindWrong(const Pattern& pattern, std::span<const float> vector) {
  WrongElements wrong;
  for (size_t begin = 0; begin < vector.size(); begin += kTile) {
    const size_t end = std::min(begin + kTile, vector.size());
    uint32_t differ = 0;
    for (size_t i = begin; i < end; ++i) {
      // NaN differs from everything, and the sums are never zero with a sign.
      differ += vector[i] == ExpectedSum(pattern, i) ? 0U : 1U;
    }
    if (differ != 0 && wrong.count == 0) {
      size_t i = begin;
      while (vector[i] == ExpectedSum(pattern, i)) {
        ++i;
      }
      wrong = {0, i, ExpectedSum(pattern, i), vector[i]};
    }
    wrong.count += differ;
  }
  return wrong;
}

}  // namespace tide::allreduce
