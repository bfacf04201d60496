#pragma once
// Where the GPU time of a simulated cluster went. Every GPU-millisecond of capacity is in exactly
// one class, so the classes add up to the capacity, exactly.

#include <array>
#include <cstdint>
#include <string_view>

namespace tide::sim {

enum class GpuUse : uint8_t {
  kUseful = 0,         // work that counts: not done again later
  kSave = 1,           // ranks wait for a checkpoint
  kRestart = 2,        // starting, loading, leaving
  kRecomputed = 3,     // work lost at a suspension, so done twice
  kLostToFaults = 4,   // work lost to a fault, and GPUs held by a broken gang
  kIdleAvoidable = 5,  // idle, and a waiting job could have used it
  kIdleNoFit = 6,      // idle while jobs wait, none of which fits
  kIdleNoDemand = 7,   // idle, nobody waits
  kOutOfService = 8,   // the node is broken or being repaired
};
inline constexpr size_t kGpuUses = 9;

// "idle_avoidable": as in the JSON.
[[nodiscard]] std::string_view GpuUseName(GpuUse use);

struct Ledger {
  std::array<int64_t, kGpuUses> gpu_ms{};

  int64_t& operator[](GpuUse use) { return gpu_ms[static_cast<size_t>(use)]; }
  int64_t operator[](GpuUse use) const { return gpu_ms[static_cast<size_t>(use)]; }
  [[nodiscard]] int64_t Total() const;
  // Held by jobs: useful, save, restart, recomputed, lost.
  [[nodiscard]] int64_t Allocated() const;
};

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
