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
  std::string trace;  // path; "" = the synthetic mix of `mix_days`
  double mix_days = 0;
  std::string policy = "time-sharing";
  std::string cluster;  // path; "" = `nodes` equal nodes in one zone
  uint32_t nodes = 0;
  uint32_t gpus_per_node = 8;
  UserRule users;
  ProjectRule projects = ProjectRule::kNone;
  SavesRule saves;
  uint64_t seed = 1;
  double compress = 1;
  // What a suspension costs a job, saving and starting again together. Not set: as published, for
  // the references; 60 s for time-sharing.
  std::optional<int64_t> preempt_cost_s;
  // The rest is about time-sharing alone.
  std::optional<int64_t> save_s;     // of that cost for saving; not set: a third
  int64_t start_s = 0;               // first start of a job
  std::string policy_file;           // path; "" = the defaults
  std::string zone = "cross-ok";     // zone rule of every job
  std::string faults;                // file or rate; "" = nothing breaks
  int64_t checkpoint_every_s = 300;  // with faults: work between periodic checkpoints
  double checkpoint_cost_s = 1;      // ranks wait for each
  int64_t isolation_s = 600;         // cut-off agents end their tasks after this
  int64_t witness_s = 60;            // tasks of gangs without a witness; 0 = as others
};

struct Simulation {
  Trace trace;
  RunRecord run;
};

// Every name that SimOptions::policy takes.
[[nodiscard]] std::vector<std::string> PolicyNames();

// Reads everything first; nothing runs if anything is wrong with it.
//   Errors: those of ReadTrace; kInvalidArgument for options that do not go together; kNeverFits
//   when a job of the trace is larger than the cluster.
[[nodiscard]] Result<Simulation> Simulate(const SimOptions& options);

}  // namespace tide::sim
