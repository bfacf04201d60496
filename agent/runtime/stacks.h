#pragma once
// Makes ranks that stand still show what they are doing: processes that catch a signal for it write
// the stacks of their threads to their standard error, which is the rank's log.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tide::agent {

// Real-time signal that the SDK catches for it (docs/rank-protocol.md section 1). Who does not
// catch it would die of it.
inline constexpr int kStacksSignal = 40;

// Asks the ranks of one task, once each. However many processes a task has, it costs one scan of
// /proc at most and kLooksMax looks at single processes.
class StackRequest {
 public:
  // Asks the process if it catches the signal; else the nearest below it that do: a launcher's
  // children, and not what those have forked. Returns those that were asked.
  std::vector<int32_t> Ask(int32_t pid);

 private:
  static constexpr size_t kLooksMax = 2048;

  const std::multimap<int32_t, int32_t>& Children();

  std::optional<std::multimap<int32_t, int32_t>> children_;  // by parent; read when needed
  size_t looks_ = 0;
};

}  // namespace tide::agent
