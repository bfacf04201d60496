#pragma once
// Has ranks that stand still say what they are doing: processes that catch a signal for it write
// the stacks of their threads to their standard error, which is the rank's log.

#include <cstdint>

namespace tide::agent {

// Real-time signal that the SDK catches for it (docs/rank-protocol.md section 1). Who does not
// catch it would die of it.
inline constexpr int kStacksSignal = 40;

// Asks the process, and all below it, as far as they catch the signal. Returns how many were asked.
//   Cost: one scan of /proc.
uint32_t AskForStacks(int32_t pid);

}  // namespace tide::agent
