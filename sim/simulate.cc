#include "sim/simulate.h"

#include <cmath>
#include <utility>

#include "common/base/file.h"
#include "scheduler/core/isolation.h"
#include "scheduler/core/policy/policy_text.h"
#include "sim/mix.h"
#include "sim/node_pool.h"
#include "sim/reference/policies.h"
#include "sim/replay/replay.h"

namespace tide::sim {
namespace {

constexpr int64_t kPreemptCostS = 60;

std::unexpected<Error> TooLarge(const Trace& trace, const TraceJob& job, const std::string& why) {
  return Fail(ErrorCode::kNeverFits,
              trace.path + ":" + std::to_string(job.line) + ":1: job " + job.id + " asks for " +
                  std::to_string(job.gpus) + " GPUs, " + why + ": give it a larger cluster");
}

Result<ClusterShape> ShapeOfCluster(const SimOptions& options) {
  if (options.cluster.empty() == (options.nodes == 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a simulation needs a cluster: either --cluster FILE or --nodes N");
  }
  return options.cluster.empty() ? FlatCluster(options.nodes, options.gpus_per_node)
                                 : LoadClusterShape(options.cluster);
}

Result<Trace> LoadOf(const SimOptions& options, const ClusterShape& shape) {
  if (options.trace.empty() == (options.mix_days == 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                "a simulation needs jobs: either --trace FILE or --mix-days N");
  }
  if (options.trace.empty()) {
    return MakeMix(kMix, shape.capacity(), shape.gpus_per_node, options.mix_days, options.seed);
  }
  return ReadTrace(options.trace);
}

// The references know one pool of identical nodes.
Result<RunRecord> RunReferenceOn(const Trace& trace, const ClusterShape& shape, RefPolicy& policy) {
  const auto nodes = static_cast<uint32_t>(shape.nodes.size());
  const NodePool pool(nodes, shape.gpus_per_node);
  for (const TraceJob& job : trace.jobs) {
    if (pool.Find(job.gpus).empty()) {
      return TooLarge(trace, job, "the cluster has " + std::to_string(pool.capacity()));
    }
  }
  return RunReference(trace, nodes, shape.gpus_per_node, policy);
}

Status CheckShapes(const Trace& trace, const ClusterShape& shape, const std::string& zone_rule) {
  const auto all = static_cast<uint32_t>(shape.nodes.size());
  const uint32_t most = zone_rule == "single" ? shape.LargestZone() : all;
  for (const TraceJob& job : trace.jobs) {
    if (job.gpus_per_node > shape.gpus_per_node) {
      return TooLarge(trace,
                      job,
                      std::to_string(job.gpus_per_node) + " on a node; its nodes have " +
                          std::to_string(shape.gpus_per_node));
    }
    if ((job.gpus + job.gpus_per_node - 1) / job.gpus_per_node > most) {
      return TooLarge(trace,
                      job,
                      std::to_string(job.gpus_per_node) + " on a node; a job may have " +
                          std::to_string(most) + " nodes");
    }
  }
  return {};
}

Result<RunRecord> RunTimeSharing(const Trace& trace,
                                 const ClusterShape& shape,
                                 const SimOptions& options) {
  TIDE_TRY(CheckShapes(trace, shape, options.zone));
  const int64_t cost_s = options.preempt_cost_s.value_or(kPreemptCostS);
  const int64_t save_s = options.save_s.value_or(cost_s / 3);
  if (save_s > cost_s) {
    return Fail(ErrorCode::kInvalidArgument,
                "--save-s is " + std::to_string(save_s) + ", more than the " +
                    std::to_string(cost_s) +
                    " s that a suspension costs in all (--preempt-cost-s)");
  }
  ReplayOptions replay;
  if (!options.policy_file.empty()) {
    constexpr uint64_t kMost = (kPolicyMebibytesMax << 20U) + 1;
    TIDE_ASSIGN(const std::string text, ReadFile(options.policy_file, kMost));
    TIDE_ASSIGN(replay.policy, PolicyFromText(text, options.policy_file));
  }
  replay.costs.start_ms = options.start_s * 1000;
  replay.costs.save_ms = save_s * 1000;
  replay.costs.restart_ms = (cost_s - save_s) * 1000;
  replay.policy.isolation_timeout = Duration::Seconds(options.isolation_s);
  replay.policy.witness_timeout = Duration::Seconds(options.witness_s);
  replay.seed = options.seed;
  replay.zone = options.zone;
  replay.costs.checkpoint_every_ms = options.saves.every_s * 1000;
  if (!options.faults.empty()) {
    TIDE_ASSIGN(replay.faults, ReadFaults(options.faults));
    replay.costs.checkpoint_every_ms = options.checkpoint_every_s * 1000;
    replay.costs.checkpoint_ms = std::llround(options.checkpoint_cost_s * 1000);
  }
  ClusterShape joining = shape;
  for (NodeIdentity& node : joining.nodes) {
    node.witness_timeout = WitnessTimeoutOf(0, replay.policy);
  }
  return ReplayTrace(trace, joining, replay);
}

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names(std::begin(kReferenceNames), std::end(kReferenceNames));
  names.emplace_back("time-sharing");
  return names;
}

Result<Simulation> Simulate(const SimOptions& options) {
  TIDE_ASSIGN(const ClusterShape shape, ShapeOfCluster(options));
  TIDE_ASSIGN(Trace trace, LoadOf(options, shape));
  if (trace.jobs.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a mix of so few days on so few nodes has no job; more of either: --mix-days, "
                "--nodes");
  }
  Compress(trace, options.compress);
  AssignUsers(trace, options.users, options.seed);
  AssignProjects(trace, options.projects);
  AssignSaves(trace, options.saves, options.seed);
  if (const auto reference = MakeReference(options.policy, options.preempt_cost_s)) {
    if (!options.faults.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--faults needs --policy time-sharing: the references know no faults");
    }
    TIDE_ASSIGN(RunRecord run, RunReferenceOn(trace, shape, *reference));
    return Simulation{std::move(trace), std::move(run)};
  }
  if (options.policy != "time-sharing") {
    return Fail(ErrorCode::kInvalidArgument, "there is no policy \"" + options.policy + "\"");
  }
  TIDE_ASSIGN(RunRecord run, RunTimeSharing(trace, shape, options));
  return Simulation{std::move(trace), std::move(run)};
}

}  // namespace tide::sim
