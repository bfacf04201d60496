#include "agent/core/task_outcome.h"

#include <algorithm>

namespace tide::agent {
namespace {

constexpr int32_t kSigKill = 9;
constexpr const char* kCutOffMessage = "ended because its node had no answer of the scheduler";

bool LeftWell(const TaskExits& exits, const RankExit& rank) {
  if (rank.signal != 0) {
    return false;
  }
  if (rank.code == 0) {
    return true;
  }
  // 85 counts with an acknowledged save, or from a program without the SDK that was asked to go.
  return rank.code == kLeftExitCode &&
         (rank.acknowledged || (!rank.attached && exits.suspend_signalled));
}

// The rank that failed first, as far as can be told: its own exit code before a signal, and any
// signal before those with which the others are cleared away.
const RankExit* FindCulprit(const TaskExits& exits) {
  const auto weight = [](const RankExit& rank) {
    if (rank.oom) {
      return 0;
    }
    if (rank.signal == 0) {
      return 1;
    }
    return rank.signal == 15 || rank.signal == kSigKill ? 3 : 2;
  };
  const RankExit* culprit = nullptr;
  for (const RankExit& rank : exits.ranks) {
    if (!LeftWell(exits, rank) && (culprit == nullptr || weight(rank) < weight(*culprit))) {
      culprit = &rank;
    }
  }
  return culprit;
}

std::string Gibibytes(uint64_t bytes) {
  const uint64_t tenths = bytes * 10 / (1ULL << 30U);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

TaskOutcome Describe(const TaskExits& exits, const RankExit& rank, ExitReason reason) {
  TaskOutcome outcome{reason, rank.code, rank.signal, static_cast<int32_t>(rank.rank), ""};
  const std::string who = "rank " + std::to_string(rank.rank);
  if (reason == ExitReason::kOom) {
    outcome.message = who + " was killed for memory" +
                      (exits.memory_limit_bytes > 0
                           ? " (limit " + Gibibytes(exits.memory_limit_bytes) + " a node)"
                           : std::string());
  } else if (rank.signal != 0) {
    outcome.message = who + " was ended by signal " + std::to_string(rank.signal);
  } else if (rank.code == kLeftExitCode) {
    outcome.message = who + " exited with code 85 without an acknowledged checkpoint";
  } else {
    outcome.message = who + " exited with code " + std::to_string(rank.code);
  }
  return outcome;
}

// It is the job's own doing.
std::string WhyEndedByAgent(const TaskExits& exits) {
  return exits.cut_rank < 0
             ? exits.over_limit
             : "rank " + std::to_string(exits.cut_rank) +
                   " cut the file at TIDE_PAGE short, through which Tide talks to it";
}

}  // namespace

TaskOutcome JudgeExits(const TaskExits& exits) {
  if (!exits.late.empty()) {
    return {ExitReason::kNodeFault, 0, 0, -1, exits.late};
  }
  if (exits.lost) {
    return {ExitReason::kLost, 0, 0, -1, "its supervisor vanished"};
  }
  if (!exits.given_up.empty()) {
    return {ExitReason::kLost, 0, 0, -1, exits.given_up};
  }
  if (!exits.started) {
    if (exits.cut_off) {
      return {ExitReason::kCutOff, 0, 0, -1, kCutOffMessage};
    }
    if (exits.stop_ordered) {
      return {ExitReason::kStopped, 0, 0, -1, "stopped before it had started"};
    }
    return {
        ExitReason::kStartFailed, 0, 0, -1, exits.error.empty() ? "did not start" : exits.error};
  }
  if (exits.cut_rank >= 0 || !exits.over_limit.empty()) {
    return {ExitReason::kFailed, -1, kSigKill, exits.cut_rank, WhyEndedByAgent(exits)};
  }
  const RankExit* culprit = FindCulprit(exits);
  if (culprit == nullptr) {
    const bool suspended =
        std::any_of(exits.ranks.begin(), exits.ranks.end(), [](const RankExit& rank) {
          return rank.code == kLeftExitCode;
        });
    if (suspended) {
      return {ExitReason::kSuspended, kLeftExitCode, 0, -1, "saved and left"};
    }
    const bool all_done = std::all_of(
        exits.ranks.begin(), exits.ranks.end(), [](const RankExit& r) { return r.done; });
    if (exits.cut_off && !all_done) {
      return {ExitReason::kCutOff, 0, 0, -1, kCutOffMessage};
    }
    if (exits.stop_ordered && !all_done) {
      // A handler of SIGTERM may exit 0; that does not mean that the work is done.
      return {ExitReason::kStopped, 0, 0, -1, "stopped"};
    }
    // Programs that save on their signal mostly exit 0: nothing tells that from being done.
    if (exits.suspend_signalled && exits.notice_runs && !exits.exit_ok_done && !all_done) {
      return {ExitReason::kSuspended, 0, 0, -1, "left with exit code 0 after its signal"};
    }
    return {ExitReason::kSucceeded, 0, 0, -1, ""};
  }
  if (exits.cut_off) {
    return {ExitReason::kCutOff, culprit->code, culprit->signal, -1, kCutOffMessage};
  }
  if (exits.stop_ordered) {
    return Describe(exits, *culprit, ExitReason::kStopped);
  }
  // Nobody used the SDK when the signal was chosen. A rank may attach before it lands, and a rank
  // whose neighbour it ended first fails on its own: neither is the job's doing.
  if (exits.suspend_signalled && !culprit->oom) {
    return Describe(exits, *culprit, ExitReason::kStopped);
  }
  TaskOutcome outcome =
      Describe(exits, *culprit, culprit->oom ? ExitReason::kOom : ExitReason::kFailed);
  if (outcome.reason == ExitReason::kFailed && !exits.error.empty()) {
    outcome.message = exits.error;  // tide-init says why a program could not be run
  }
  return outcome;
}

}  // namespace tide::agent
