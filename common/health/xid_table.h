#pragma once
// What a fault means and what is done about it. Pure data and pure functions.
//
// The table carries the defaults; it names no GPU model. Where the driver's message decides (144 to
// 150: fatal or not; 154: its own recovery action) Judge reads the message.

#include <cstdint>
#include <string_view>

#include "common/health/kernel_log.h"

namespace tide::health {

enum class FaultAction : uint8_t {
  kNone = 0,        // kept as evidence
  kCount = 1,       // counted per GPU; says something only when it repeats
  kRestartJob = 2,  // the job dies or must: restarted elsewhere, the GPU reset before its next job
  kDrainAfter = 3,  // out of service when the job has left
  kDrainNow = 4,    // out of service at once
};

// "none", "count", "restart_job", "drain_after", "drain_now".
[[nodiscard]] std::string_view FaultActionName(FaultAction action);

struct Judgement {
  std::string_view meaning;  // short English, for `tide faults`
  FaultAction action = FaultAction::kCount;
  bool operator==(const Judgement&) const = default;
};

// The table's entry, or {"unknown Xid", kCount}.
[[nodiscard]] Judgement JudgeXid(int32_t code);

// The table's entry, corrected by what the message itself says.
[[nodiscard]] Judgement Judge(const KernelFault& fault);

}  // namespace tide::health
