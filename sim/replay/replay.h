#pragma once
// Drives the real scheduler core under virtual time: the trace's jobs are submitted, simulated
// agents obey its commands, nodes break and are repaired.

#include <functional>
#include <string>

#include "common/base/result.h"
#include "scheduler/core/model/state.h"
#include "scheduler/core/policy/policy.h"
#include "sim/cluster_shape.h"
#include "sim/record.h"
#include "sim/replay/costs.h"
#include "sim/replay/faults.h"
#include "sim/trace.h"

namespace tide::sim {

struct ReplayOptions {
  RunCosts costs;
  Policy policy;
  FaultModel faults;  // empty: nothing breaks
  uint64_t seed = 1;
  std::string zone = "cross-ok";       // zone rule of every job
  int64_t fault_seen_ms = 1'000;       // kernel log → scheduler
  int64_t node_silent_ms = 3'000;      // death → suspect
  int64_t node_lost_ms = 10'000;       // death → lost
  int64_t validation_ms = 8 * 60'000;  // of a repaired node
  // Called after each step with what it left behind; changes nothing.
  std::function<void(const ClusterState&, const Policy&, Instant now)> watch = nullptr;
};

// Runs the trace until every job has ended. A job's class is its `kind` where that is the name of
// a class, else normal.
//   Errors: kNeverFits for a job that the scheduler refuses; kInternal when the scheduler comes to
//   rest with jobs waiting, spins, or lets a job fail: faults of the scheduler.
//   Cost: one Step for each moment at which something happens.
[[nodiscard]] Result<RunRecord> ReplayTrace(const Trace& trace,
                                            const ClusterShape& shape,
                                            const ReplayOptions& options);

}  // namespace tide::sim
