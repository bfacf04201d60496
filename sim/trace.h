#pragma once
// A trace of jobs: when each came, what it asked for, how long it ran. CSV, plain or gzip.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace tide::sim {

struct TraceJob {
  std::string id;          // as the trace names it: any text
  int64_t submit_s = 0;    // from the start of the trace
  int64_t duration_s = 1;  // run time on the requested GPUs, undisturbed
  uint32_t gpus = 1;       // in all
  uint32_t gpus_per_node = 1;
  std::string user;  // "-" = not known
  std::string group;
  std::string project;  // "" = everybody's
  std::string status;
  std::string kind;
  bool saves = true;  // when it is asked to leave, and now and then
  uint32_t line = 0;  // of the file, for messages
};

struct Trace {
  std::string path;
  std::vector<TraceJob> jobs;  // by submit_s, then as in the file
};

// The first line of every trace.
inline constexpr char kTraceHeader[] =
    "job_id,submit_s,duration_s,gpus,gpus_per_node,user,group,status,kind";

// Reads a trace. Times with decimals are rounded to whole seconds; fields are not quoted.
//   Errors: kNotFound, kSystem; kExhausted beyond 1 GiB of text or 10,000,000 jobs;
//   kInvalidArgument as "FILE:LINE:COLUMN: what, expected what".
[[nodiscard]] Result<Trace> ReadTrace(const std::string& path);

// The same for text at hand; `path` is for messages.
[[nodiscard]] Result<Trace> ParseTrace(const std::string& path, std::string_view text);

}  // namespace tide::sim
