#pragma once
// A number that only grows, published by one thread or process and awaited by others: how the
// stages of an all-reduce follow each other. It works in memory that processes share.

#include <atomic>
#include <cstdint>

namespace tide::allreduce {

// A limit for those who wait for somebody that has one.
inline constexpr int64_t kForEver = INT64_MAX / 2;

// Invariant: values are compared by their distance, so that they may wrap around.
class alignas(64) Sequence {
 public:
  // Sets the number and wakes those who wait. `value` never goes back.
  void Publish(uint32_t value);

  [[nodiscard]] bool Reached(uint32_t value) const {
    return static_cast<int32_t>(value_.load(std::memory_order_acquire) - value) >= 0;
  }

  // Waits until the number is `value` or more. Returns false when `stop` became set or it took
  // longer than `timeout_ns` nanoseconds.
  [[nodiscard]] bool WaitFor(uint32_t value,
                             const std::atomic<uint32_t>& stop,
                             int64_t timeout_ns) const;

 private:
  std::atomic<uint32_t> value_{0};
  mutable std::atomic<uint32_t> waiting_{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tide::allreduce
