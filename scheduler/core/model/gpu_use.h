#pragma once
// What GPU time was spent on: the classes of the scheduler's ledger of jobs (gpu_ledger.h) and of
// the simulator's ledger of a whole cluster (sim/ledger.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace tide {

enum class GpuUse : uint8_t {
  // Of GPUs that jobs hold.
  kUseful = 0,            // work that counts: not done again later
  kSave = 1,              // ranks wait for a checkpoint
  kRestart = 2,           // starting and loading until the first step; leaving
  kRecomputed = 3,        // work lost to the job's own failure, or to a person's order
  kLostToPreemption = 4,  // work lost as others took the nodes
  kLostToFaults = 5,      // work lost to a fault, and GPUs held by a broken gang
  kUnknown = 6,           // no steps were seen: nobody can tell
  // The same, while it is still to be decided what it was.
  kUnsaved = 7,  // work since the newest checkpoint: useful, or lost
  kUnclear = 8,  // running without a step so far: restart, or unknown
  // Of GPUs that no job holds.
  kIdleAvoidable = 9,  // idle, and a waiting job could have used it
  kIdleNoFit = 10,     // idle while jobs wait, none of which fits
  kIdleNoDemand = 11,  // idle, nobody waits
  kOutOfService = 12,  // the node is broken or being repaired
};
inline constexpr size_t kSettledUses = 7;  // those that stay as they are
inline constexpr size_t kHeldUses = 9;     // of GPUs that jobs hold
inline constexpr size_t kGpuUses = 13;

// "idle_avoidable": as in JSON, metrics and rows. Never changes.
[[nodiscard]] constexpr std::string_view GpuUseName(GpuUse use) {
  switch (use) {
    case GpuUse::kUseful:
      return "useful";
    case GpuUse::kSave:
      return "save";
    case GpuUse::kRestart:
      return "restart";
    case GpuUse::kRecomputed:
      return "recomputed";
    case GpuUse::kLostToPreemption:
      return "lost_to_preemption";
    case GpuUse::kLostToFaults:
      return "lost_to_faults";
    case GpuUse::kUnknown:
      return "unknown";
    case GpuUse::kUnsaved:
      return "unsaved";
    case GpuUse::kUnclear:
      return "unclear";
    case GpuUse::kIdleAvoidable:
      return "idle_avoidable";
    case GpuUse::kIdleNoFit:
      return "idle_no_fit";
    case GpuUse::kIdleNoDemand:
      return "idle_no_demand";
    case GpuUse::kOutOfService:
      return "out_of_service";
  }
  return "?";
}

// GPU-milliseconds by what they were spent on: the first so many classes.
template <size_t kUses>
struct GpuTime {
  std::array<int64_t, kUses> gpu_ms{};
  bool operator==(const GpuTime&) const = default;

  int64_t& operator[](GpuUse use) { return gpu_ms.at(static_cast<size_t>(use)); }
  int64_t operator[](GpuUse use) const { return gpu_ms.at(static_cast<size_t>(use)); }
  [[nodiscard]] int64_t Total() const {
    return std::accumulate(gpu_ms.begin(), gpu_ms.end(), int64_t{0});
  }
  // Of GPUs that jobs held.
  [[nodiscard]] int64_t Held() const {
    return std::accumulate(gpu_ms.begin(), gpu_ms.begin() + kHeldUses, int64_t{0});
  }
  void Add(const GpuTime& other) {
    for (size_t use = 0; use < kUses; ++use) {
      gpu_ms[use] += other.gpu_ms[use];
    }
  }
};
using HeldTime = GpuTime<kHeldUses>;

}  // namespace tide
