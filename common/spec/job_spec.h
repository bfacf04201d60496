#pragma once
// What a user asks for, as every program of Tide sees it. Immutable once accepted.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide {

struct MountSpec {
  std::string source;  // absolute, on the node
  std::string target;  // absolute, in the container
  bool read_only = false;
  bool operator==(const MountSpec&) const = default;
};

// How an awaited job must end. Numbers are on the wire.
enum class AfterOutcome : uint8_t {
  kSuccess = 0,
  kFailure = 1,  // it failed or was cancelled
  kAny = 2,
};

// The job starts only after this one has ended so.
struct Dependency {
  JobId job;
  AfterOutcome on = AfterOutcome::kSuccess;
  bool array = false;  // all elements of the array that it begins; success = of every one
  bool operator==(const Dependency&) const = default;
};
// Consequences for a job of a loss that is NaN or infinite. Numbers are on the wire.
enum class OnNan : uint8_t {
  kNote = 0,      // it is told to people
  kStop = 1,      // the job ends as failed
  kRollback = 2,  // the job goes back to an older checkpoint
};

inline constexpr size_t kDependenciesMax = 64;
inline constexpr uint32_t kArrayCountMax = 10'000;

// Everybody's project, of jobs that name none.
inline constexpr std::string_view kDefaultProject = "default";

struct JobSpec {
  std::string name;
  std::string project = std::string(kDefaultProject);
  std::string image = "host";        // "host" = the node's own root file system, read-only
  std::string workdir;               // absolute; empty = a scratch folder of the task
  std::vector<std::string> command;  // argv, never a shell string
  std::string group = "default";     // hardware pool
  uint32_t nodes = 1;
  uint32_t gpus_per_node = 0;
  uint32_t ranks_per_node = 1;  // processes started on each node
  uint32_t cpus_per_node = 0;   // 0 = no limit
  uint64_t memory_bytes_per_node = 0;
  uint64_t disk_bytes_per_node = 0;  // least room for its user's scratch folders; 0 = any
  std::string gpu_model;             // words of its name, such as "A100"; empty = any
  std::string zone = "single";       // see zone_rule.h
  int32_t priority = 10;             // one of the nine classes below
  Duration suspend_notice = Duration::Seconds(120);
  int32_t suspend_signal = 15;        // for ranks without the SDK
  bool suspend_exit_ok_done = false;  // exit code 0 after that signal: done; false = left
  std::string checkpoint_dir;         // absolute; empty = chosen by the agent
  Duration checkpoint_every;          // between saves that the agents order; 0 = they order none
  uint32_t retry_failure_max = 0;
  uint32_t retry_hardware_max = 100;
  Duration retry_backoff = Duration::Seconds(5);
  Duration max_runtime;    // 0 = unlimited; running time over all attempts
  Duration start_timeout;  // from a task's launch until all its ranks run; 0 = as the policy says
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> labels;
  std::vector<MountSpec> mounts;
  std::vector<Dependency> after;     // all of them
  uint32_t count = 1;                // more than 1: an array of so many jobs
  std::vector<std::string> secrets;  // names of its owner's; secret_name.h
  OnNan on_nan = OnNan::kNote;
  bool operator==(const JobSpec&) const = default;
};

// The ancestor's nine classes; a higher number goes first.
struct PriorityClass {
  std::string_view name;
  int32_t value;
};
inline constexpr PriorityClass kPriorityClasses[] = {
    {"extreme-high", 50},
    {"very-high", 40},
    {"high", 30},
    {"above-normal", 20},
    {"normal", 10},
    {"under-normal", 8},
    {"below-normal", 5},
    {"low", 0},
    {"auto", -1},
};

// "high" for 30; the number itself for a value that is no class.
[[nodiscard]] std::string PriorityName(int32_t value);
// Accepts a class name only.
[[nodiscard]] Result<int32_t> ParsePriority(std::string_view name);

// Returns the word of suspend.exit_ok: "done" or "left".
[[nodiscard]] inline std::string ExitOkName(bool done) {
  return done ? "done" : "left";
}

// Returns the word of health.on_nan; "" for a value without one.
[[nodiscard]] std::string_view OnNanName(OnNan on_nan);
// Errors: kInvalidArgument.
[[nodiscard]] Result<OnNan> ParseOnNan(std::string_view word);

inline constexpr uint64_t kGibibyte = 1ULL << 30U;

// A key as one step of a JSON pointer: "a/b" is "a~1b".
[[nodiscard]] std::string PointerStep(std::string_view key);

// One finding about a spec. `line` and `column` count from 1; 0 = not from a text.
struct SpecFinding {
  std::string pointer;  // JSON pointer: /resources/nodes
  int line = 0;
  int column = 0;
  std::string message;     // what is wrong and what would be right
  std::string suggestion;  // "did you mean `nodes`?", or empty
};

// "FILE:LINE:COLUMN: message (suggestion)".
[[nodiscard]] std::string FormatFinding(const SpecFinding& finding, std::string_view file);

// kInvalidArgument, with a line for each of them.
//   kind: "cluster file", say.
[[nodiscard]] Error MistakesIn(std::string_view kind,
                               std::span<const SpecFinding> findings,
                               std::string_view file);

// Checks sizes, names and paths of a spec, wherever it came from. Empty = fine.
[[nodiscard]] std::vector<SpecFinding> CheckJobSpec(const JobSpec& spec);

// "/a/b" of "/a//./b/". `path` is absolute and has no `..`.
[[nodiscard]] std::string CleanPath(std::string_view path);

// The folder that a job's container needs as it is, where a mount at `path` would cover it; "" =
// none.
[[nodiscard]] std::string CoveredBy(const std::string& path);

// "j-12" → 12. Errors: kInvalidArgument.
[[nodiscard]] Result<uint64_t> ParseJobName(std::string_view text);
[[nodiscard]] std::string FormatJobName(uint64_t id);

}  // namespace tide
