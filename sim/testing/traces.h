#pragma once
// Traces for tests, built by hand.

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "sim/record.h"
#include "sim/trace.h"

namespace tide::sim::testing {

// A file of the lines, ending in a line break.
inline std::string Lines(std::initializer_list<const char*> lines) {
  std::string text;
  for (const char* line : lines) {
    text += line;
    text += '\n';
  }
  return text;
}

struct Line {
  int64_t submit_s = 0;
  int64_t duration_s = 1;
  uint32_t gpus = 8;
  std::string kind = "training";
};

inline Trace TraceOf(const std::vector<Line>& lines) {
  Trace trace;
  trace.path = "hand.csv";
  for (const Line& line : lines) {
    TraceJob job;
    job.id = std::to_string(trace.jobs.size());
    job.line = static_cast<uint32_t>(trace.jobs.size()) + 2;
    job.submit_s = line.submit_s;
    job.duration_s = line.duration_s;
    job.gpus = line.gpus;
    job.gpus_per_node = line.gpus < 8 ? line.gpus : 8;
    job.user = "user-" + job.id;
    job.kind = line.kind;
    trace.jobs.push_back(job);
  }
  return trace;
}

inline std::vector<int64_t> EndsOf(const RunRecord& run) {
  std::vector<int64_t> ends;
  for (const JobRecord& job : run.jobs) {
    ends.push_back(job.end_ms / 1000);
  }
  return ends;
}

// Folder of the public traces: TIDE_TRACES, or beside the source tree.
inline std::string TracesFolder() {
  const char* folder = std::getenv("TIDE_TRACES");  // NOLINT(concurrency-mt-unsafe)
  return folder != nullptr ? folder : TIDE_SOURCE_DIR "/../shared/data/traces";
}

}  // namespace tide::sim::testing
