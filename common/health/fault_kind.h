#pragma once
// Kinds of faults: what is observed on a node, and what the scheduler concludes from several.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace tide::health {

// Numbers are those of the protocol, and for ever.
enum class FaultKind : uint8_t {
  kXid = 1,       // a GPU, by the NVIDIA driver; with its code
  kLinkDown = 2,  // a network port that lost its link and did not get it back at once
  // Seen by the scheduler itself, in what nodes report.
  kFailedStarts = 3,  // several tasks in a row could not start on a node, by its own fault
  kLeafLinks = 4,     // several nodes of one leaf switch lost their links: the device is the leaf
  kBreaker = 5,       // more nodes broke than automation may take out of service
  kFailedTest = 40,   // a validator failed in a test of the idle node; the device is the validator
  kBlackHole = 20,    // jobs of several users failed on a node as soon as they ran there
  // Read in the kernel log.
  kSxid = 6,             // an NVSwitch, by its driver; with its code
  kMachineCheck = 7,     // CPU, cache or memory: an error that was not corrected
  kMemoryCorrected = 8,  // memory errors that were corrected
  kKernelStall = 9,      // a CPU or a task that does not get on: soft lockup, hung task
  kDrive = 10,           // a disk: its controller, its media, a request that failed
  kFileSystem = 11,      // a file system with errors, or one that was made read-only by them
  kDriverLost = 12,      // the GPU driver was unloaded, or does not fit its user space
  kAdapter = 13,         // a network adapter: firmware, health, power, a queue that stands still
  kOutOfMemory = 14,     // the kernel killed a process because the whole node had no memory left
  // Read by the agent in what the node shows of itself.
  kLinkFlash = 15,     // a port that lost its link and has it back: a cut of seconds or less
  kLinkDegraded = 16,  // a port that runs below its rate or width
  kLinkGone = 17,      // a port that is not there any more
  kLinkNoisy = 18,     // a port whose errors grow too fast
  kLinkUnsteady = 19,  // a port that was cut again and again lately
  kGpuMissing = 21,    // fewer GPUs than declared, or no driver for them
  kGpuMemory = 22,     // a GPU's memory: errors not corrected, rows that cannot be remapped
  kGpuLink = 23,       // a GPU at fewer PCIe lanes than card and slot can do
  kGpuSlow = 24,       // a GPU that its hardware holds back, by heat or power
};

// Words as rows, API and configuration spell them.
inline constexpr auto kFaultKindNames = std::to_array<std::pair<FaultKind, std::string_view>>({
    {FaultKind::kXid, "xid"},
    {FaultKind::kLinkDown, "link_down"},
    {FaultKind::kFailedStarts, "failed_starts"},
    {FaultKind::kLeafLinks, "leaf_links"},
    {FaultKind::kBreaker, "breaker"},
    {FaultKind::kSxid, "sxid"},
    {FaultKind::kMachineCheck, "machine_check"},
    {FaultKind::kMemoryCorrected, "memory_corrected"},
    {FaultKind::kKernelStall, "kernel_stall"},
    {FaultKind::kDrive, "drive"},
    {FaultKind::kFileSystem, "file_system"},
    {FaultKind::kDriverLost, "driver_lost"},
    {FaultKind::kAdapter, "adapter"},
    {FaultKind::kOutOfMemory, "out_of_memory"},
    {FaultKind::kLinkFlash, "link_flash"},
    {FaultKind::kLinkDegraded, "link_degraded"},
    {FaultKind::kLinkGone, "link_gone"},
    {FaultKind::kLinkNoisy, "link_noisy"},
    {FaultKind::kLinkUnsteady, "link_unsteady"},
    {FaultKind::kGpuMissing, "gpu_missing"},
    {FaultKind::kGpuMemory, "gpu_memory"},
    {FaultKind::kGpuLink, "gpu_link"},
    {FaultKind::kGpuSlow, "gpu_slow"},
    {FaultKind::kBlackHole, "black_hole"},
    {FaultKind::kFailedTest, "failed_test"},
});

[[nodiscard]] constexpr std::string_view FaultKindName(FaultKind kind) {
  for (const auto& [each, name] : kFaultKindNames) {
    if (each == kind) {
      return name;
    }
  }
  return "";
}

[[nodiscard]] constexpr std::optional<FaultKind> FindFaultKind(std::string_view name) {
  for (const auto& [kind, each] : kFaultKindNames) {
    if (each == name) {
      return kind;
    }
  }
  return std::nullopt;
}

// Reports whether the scheduler concludes it of a node from how its tasks fared: where it was
// wrong, the next tasks show that.
[[nodiscard]] constexpr bool IsOfTasks(FaultKind kind) {
  return kind == FaultKind::kFailedStarts || kind == FaultKind::kBlackHole;
}

// Reports whether the scheduler concludes it of one node.
[[nodiscard]] constexpr bool IsConcluded(FaultKind kind) {
  return IsOfTasks(kind) || kind == FaultKind::kFailedTest;
}

// Reports whether agents observe it; the others are concluded by the scheduler.
[[nodiscard]] constexpr bool IsObserved(FaultKind kind) {
  return !FaultKindName(kind).empty() && !IsConcluded(kind) && kind != FaultKind::kLeafLinks &&
         kind != FaultKind::kBreaker;
}

// Reports whether the driver numbers its faults.
[[nodiscard]] constexpr bool HasCode(FaultKind kind) {
  return kind == FaultKind::kXid || kind == FaultKind::kSxid;
}

}  // namespace tide::health
