#pragma once
// Counts of a gate, for /metrics. Written by the gate, read by any thread.

#include <atomic>
#include <cstdint>

namespace tide::api {

struct GateCounters {
  std::atomic<uint64_t> open = 0;     // connections
  std::atomic<uint64_t> busy = 0;     // of them, with a worker
  std::atomic<uint64_t> overdue = 0;  // closed: idle or slow for too long
  std::atomic<uint64_t> crowded = 0;  // closed to make room, or never let in
  std::atomic<uint64_t> refused = 0;  // requests that were not let in
};

}  // namespace tide::api
