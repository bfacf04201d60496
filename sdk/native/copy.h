#pragma once
// Memory to memory by several threads, and memory made ready for it. Fresh pages cost ten times
// what a copy into used ones does (docs/measurements.md), so slots are populated ahead and reused.

#include <cstddef>
#include <span>

#include "common/base/result.h"

namespace tide::sdk {

struct CopySpan {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// Copies all spans, which do not overlap. threads: at least 1, the caller's included.
void CopyAll(std::span<const CopySpan> spans, unsigned threads);

// Makes every page of the mapped range present and writable in this process.
//   memory: on a page's border.   Errors: kSystem where there is no memory for it.
[[nodiscard]] Status Populate(void* memory, size_t bytes);

}  // namespace tide::sdk
