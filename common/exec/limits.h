#pragma once
// Bounds of a command that runs inside a task for a person (`tide exec`), the same at every hop:
// command line, API, agent.

#include <cstddef>
#include <cstdint>

namespace tide {

inline constexpr size_t kExecArgumentsMax = 1024;
inline constexpr size_t kExecArgumentBytesMax = 128U << 10U;  // of all arguments together
inline constexpr uint32_t kTerminalSideMax = 4096;            // rows or columns
inline constexpr size_t kTerminalTypeMax = 64;
// Input sent ahead of what the command has taken. Whoever sends more is cut off: so no hop holds
// more than this, and a signal never waits behind input.
inline constexpr size_t kExecWindow = 256U << 10U;
// What was taken is told at least this often.
inline constexpr size_t kExecTakenStep = kExecWindow / 4;

}  // namespace tide
