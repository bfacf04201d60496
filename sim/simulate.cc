#include "sim/simulate.h"

#include "sim/reference/policies.h"

namespace tide::sim {
namespace {

Status CheckFits(const Trace& trace, const NodePool& pool) {
  for (const TraceJob& job : trace.jobs) {
    if (pool.Find(job.gpus).empty()) {
      return Fail(ErrorCode::kNeverFits,
                  trace.path + ":" + std::to_string(job.line) + ":1: job " +
                      std::to_string(job.id) + " asks for " + std::to_string(job.gpus) +
                      " GPUs; the cluster has " + std::to_string(pool.capacity()) +
                      ": give it more with --nodes");
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> PolicyNames() {
  return {std::begin(kReferenceNames), std::end(kReferenceNames)};
}

Result<Simulation> Simulate(const SimOptions& options) {
  TIDE_ASSIGN(Trace trace, ReadTrace(options.trace));
  Compress(trace, options.compress);
  AssignUsers(trace, options.users, options.seed);
  if (const auto reference = MakeReference(options.policy, options.preempt_cost_s)) {
    TIDE_TRY(CheckFits(trace, NodePool(options.nodes, options.gpus_per_node)));
    RunRecord run = RunReference(trace, options.nodes, options.gpus_per_node, *reference);
    return Simulation{std::move(trace), std::move(run)};
  }
  return Fail(ErrorCode::kInvalidArgument, "there is no policy \"" + options.policy + "\"");
}

}  // namespace tide::sim
