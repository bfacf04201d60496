#pragma once
// Counts of a webhook's posts, for /metrics. Written by the webhook, read by any thread.

#include <atomic>
#include <cstdint>

namespace tide::api {

struct AlertCounters {
  std::atomic<uint64_t> taken = 0;
  std::atomic<uint64_t> failed = 0;   // tried again, all that follows waits
  std::atomic<uint64_t> refused = 0;  // set aside
};

}  // namespace tide::api
