#pragma once
// Writes patterns to memory, reads them back, measures how fast memory is. One thread a CPU.

#include <cstdint>
#include <string>

#include "agent/validators/verdict.h"

namespace tide::validators {

enum class MemoryPlant {
  kNone,
  kFlip,   // one bit turns over once
  kStuck,  // one bit stays 0
};

struct MemoryOptions {
  uint64_t bytes = 0;  // 0: 1 GiB, or a quarter of what is available if that is less
  double seconds = 5;
  double floor_gbps = 0;  // slower than this is a fail
  MemoryPlant plant = MemoryPlant::kNone;
  std::string sysfs_root = "/sys";
  std::string meminfo = "/proc/meminfo";
};

// Checks at most half of the memory that is available. Out of time it leaves out patterns, and on
// the way to the first one memory; it always ends two patterns, and reports what it did.
// Skipped when there is no memory, or no thread, to do it with.
[[nodiscard]] Verdict CheckMemory(const MemoryOptions& options);

}  // namespace tide::validators
