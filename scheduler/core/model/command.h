#pragma once
// What an agent is told to do. Idempotent; the epoch fences.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace tide {

enum class CommandKind : uint8_t {
  kStartTask,
  kSuspendTask,
  kWithdrawSuspend,
  kStopTask,
  kForgetTask,
  kValidate,
  kDumpStacks,  // stacks of ranks that stand still, into their logs
  kFetchImage,  // of a job that claims the node; the epoch and the task say nothing
};

// Steps that mend a node, each with the devices that need it: "reset_gpu" -> {"0000:a1:00"}.
using Repairs = std::map<std::string, std::vector<std::string>>;

struct Command {
  NodeId node;  // to whose agent
  CommandKind kind = CommandKind::kStartTask;
  JobId job;
  Epoch epoch;
  uint32_t task = 0;
  Duration start_timeout;               // kStartTask
  Instant deadline;                     // kSuspendTask; kDumpStacks: since when they stand still
  bool kill = false;                    // kStopTask
  Duration grace;                       // kStopTask
  std::string request_id;               // kValidate
  std::vector<std::string> validators;  // kValidate: beside those of the suite
  bool thorough = false;                // kValidate: all validators, as long as they want
  bool yields = false;                  // kValidate: a task that is to start breaks it off
  std::vector<std::string> passed_over = {};  // kValidate: they have answered already
  Repairs repairs = {};                       // kValidate: what is done before
  bool as_peer = false;                       // kValidate: only its part in the group's test
  bool operator==(const Command&) const = default;
};

}  // namespace tide
