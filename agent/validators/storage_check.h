#pragma once
// Writes a file, reads it back, compares every byte, measures both. Blocks, for ever on a hung
// mount: the caller runs it in a process that can be killed.

#include <cstdint>
#include <string>

#include "agent/validators/verdict.h"

namespace tide::validators {

struct StorageOptions {
  std::string dir;
  uint64_t bytes = 256ULL << 20U;
  double floor_mbps = 0;  // slower than this, writing or reading, is a fail
  bool plant_flip = false;
  bool plant_hang = false;
};

// The file has no name after its first instant: nothing is left behind however this ends.
[[nodiscard]] Verdict CheckStorage(const StorageOptions& options);

}  // namespace tide::validators
