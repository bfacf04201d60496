#pragma once
// What the agent and `tide-init attend` say to each other. The agent starts one of those for each
// command that a person runs inside a task; in a container it has the job's user already.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::agent {

// Descriptors that `tide-init attend` finds open.
inline constexpr int kExecConfigFd = 3;  // ExecConfig as JSON, a file
inline constexpr int kExecLeashFd = 4;   // SOCK_SEQPACKET to the agent: its end ends the command
inline constexpr int kExecInputFd = 5;   // the command's stdin; all three are a terminal or none is
inline constexpr int kExecOutputFd = 6;
inline constexpr int kExecErrorsFd = 7;
inline constexpr int kExecFds = 5;

struct ExecConfig {
  std::string tag;                                 // TIDE_TASK
  std::vector<std::vector<std::string>> commands;  // the first whose program exists is run
  std::map<std::string, std::string> env;          // complete, but for a default PATH
  std::string workdir = "/";
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool drop_user = false;  // change to uid and gid
  bool terminal = false;
  // Process runtime: the supervisor, with whose end the command ends. In a container the kernel
  // sees to that.
  int32_t supervisor_pid = 0;
  uint64_t supervisor_start_ticks = 0;
};

[[nodiscard]] Result<std::string> ExecConfigToJson(const ExecConfig& config);
// Errors: kCorrupt.
[[nodiscard]] Result<ExecConfig> ExecConfigFromJson(std::string_view text);

// From the attendant, one packet each. Over a socket that the job's processes may get hold of.
struct ExecReport {
  enum class Kind {
    kStarted,
    kCannotStart,  // `text` says why; last
    kEnded,        // nothing that the command started is left; last
  };
  Kind kind = Kind::kEnded;
  int32_t code = 0;
  int32_t signal = 0;
  std::string text;
};
inline constexpr size_t kExecPacketMax = 4096;

[[nodiscard]] std::string ExecReportToText(const ExecReport& report);
// Nothing for what no attendant says.
[[nodiscard]] std::optional<ExecReport> ExecReportFromText(std::string_view text);

// To the attendant: a signal for the command's process group.
[[nodiscard]] std::string ExecSignalToText(int signal);
[[nodiscard]] std::optional<int> ExecSignalFromText(std::string_view text);

}  // namespace tide::agent
