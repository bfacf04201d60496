#pragma once
// One simulation from files to figures: what `tide sim` runs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "sim/record.h"
#include "sim/trace.h"
#include "sim/workload.h"

namespace tide::sim {

struct SimOptions {
  std::string trace;  // path
  std::string policy = "time-sharing";
  uint32_t nodes = 0;
  uint32_t gpus_per_node = 8;
  UserRule users;
  uint64_t seed = 1;
  double compress = 1;
  std::optional<int64_t> preempt_cost_s;  // not set: as published, for the references
};

struct Simulation {
  Trace trace;
  RunRecord run;
};

// Every name that --policy takes.
[[nodiscard]] std::vector<std::string> PolicyNames();

// Reads everything first; nothing runs if anything is wrong with it.
//   Errors: those of ReadTrace; kInvalidArgument for options that do not go together; kNeverFits
//   when a job of the trace is larger than the cluster.
[[nodiscard]] Result<Simulation> Simulate(const SimOptions& options);

}  // namespace tide::sim
