#pragma once
// What the exits of a task's ranks mean for its job.

#include <cstdint>
#include <string>
#include <vector>

namespace tide::agent {

// Numbers are those of ExitReason in proto/tide/v1/types.proto.
enum class ExitReason : uint8_t {
  kSucceeded = 1,
  kSuspended = 2,
  kFailed = 3,
  kOom = 4,
  kStopped = 5,
  kStartFailed = 6,
  kLost = 7,
  kCutOff = 8,
  kNodeFault = 9,
  kNoAccount = 10,
};

struct RankExit {
  uint32_t rank = 0;
  int32_t code = 0;
  int32_t signal = 0;
  bool oom = false;
  bool attached = false;      // used the SDK
  bool acknowledged = false;  // its page says saved and acknowledged
  bool done = false;          // its page says done
};

struct TaskExits {
  std::vector<RankExit> ranks;
  bool started = false;            // every rank was started
  bool lost = false;               // the supervisor died without a verdict
  bool suspend_signalled = false;  // ranks without the SDK were asked to leave by a signal
  bool notice_runs = false;   // and the time they had for it was not over when they were last seen
  bool exit_ok_done = false;  // exit code 0 after that signal means done
  bool stop_ordered = false;  // by the scheduler
  bool cut_off = false;       // ended because the node's lease ran out
  int32_t cut_rank = -1;      // cut its shared page short and was ended for it; -1 = none
  std::string error;          // why it could not start
  std::string over_limit;     // what it took too much of and was ended for; empty = nothing
  std::string given_up;       // why its agent could not go on with it; empty = it could
  std::string late;           // what was waited for when it did not start in time; empty = it did
  uint64_t memory_limit_bytes = 0;
};

struct TaskOutcome {
  ExitReason reason = ExitReason::kFailed;
  int32_t code = 0;
  int32_t signal = 0;
  int32_t rank = -1;
  std::string message;
  bool operator==(const TaskOutcome&) const = default;
};

// Exit code of a rank that saved, acknowledged, and wants to run again.
inline constexpr int32_t kLeftExitCode = 85;

[[nodiscard]] TaskOutcome JudgeExits(const TaskExits& exits);

}  // namespace tide::agent
