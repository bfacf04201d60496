#pragma once
// Where the GPU time of a simulated cluster went. Every GPU-millisecond of capacity is in exactly
// one class, so the classes add up to the capacity, exactly.

#include <array>
#include <cstdint>

#include "scheduler/core/model/gpu_use.h"

namespace tide::sim {

// Those of the classes that the simulator knows: its jobs save when asked, or never.
inline constexpr std::array kSimUses = {GpuUse::kUseful,
                                        GpuUse::kSave,
                                        GpuUse::kRestart,
                                        GpuUse::kLostToPreemption,
                                        GpuUse::kLostToFaults,
                                        GpuUse::kIdleAvoidable,
                                        GpuUse::kIdleNoFit,
                                        GpuUse::kIdleNoDemand,
                                        GpuUse::kOutOfService};

using Ledger = GpuTime<kGpuUses>;

// What a cluster does between two events.
struct Usage {
  int64_t allocated = 0;       // GPUs
  int64_t out_of_service = 0;  // GPUs that nobody holds
  int64_t pending = 0;         // GPUs that waiting jobs ask for
  int64_t avoidable = 0;       // idle GPUs that waiting jobs could use right now
};

// Adds up usage over time.
class UsageMeter {
 public:
  explicit UsageMeter(int64_t capacity) : capacity_(capacity) {}

  // From `now_ms` on the usage is `usage`; until then it was the one before. Time never goes back.
  void Observe(int64_t now_ms, const Usage& usage);

  // The idle and out-of-service classes; those of jobs are zero.
  [[nodiscard]] const Ledger& idle() const { return idle_; }
  [[nodiscard]] int64_t capacity() const { return capacity_; }
  // From the first observation to the last.
  [[nodiscard]] int64_t elapsed_ms() const { return begun_ ? now_ms_ - begin_ms_ : 0; }
  // GPU-milliseconds that jobs held.
  [[nodiscard]] int64_t allocated() const { return allocated_; }
  // Allocated over in-service capacity while demand was at least the capacity; -1 if never.
  [[nodiscard]] double Occupancy() const;

 private:
  int64_t capacity_;
  bool begun_ = false;
  int64_t begin_ms_ = 0;
  int64_t now_ms_ = 0;
  Usage usage_;
  Ledger idle_;
  int64_t allocated_ = 0;
  int64_t busy_allocated_ = 0;  // while demand >= capacity
  int64_t busy_capacity_ = 0;
};

}  // namespace tide::sim
