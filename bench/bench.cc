#include "bench/bench.h"

#include "bench/benches.h"

namespace tide::bench {
namespace {

constexpr Bench kBenches[] = {
    {"decide-full", "one decision: nothing free, every waiting gang considered", RunDecideFull},
    {"decide-replay", "steps while bursts of jobs meet 10,000 nodes", RunDecideReplay},
    {.name = "decide-scale",
     .what = "the same where 1,000,000 jobs wait for 100,000 nodes (minutes; only by name)",
     .run = RunDecideScale,
     .only_by_name = true},
    {"decide-fill", "an empty cluster filled from a long queue", RunDecideFill},
    {"place-one", "one gang placed on a half-busy cluster", RunPlaceOne},
    {"plan-all", "a start estimate for every waiting job", RunPlanAll},
    {"preempt", "victims for a large gang, or the proof that none suffice", RunPreempt},
    {"whatif", "a plan on a copy of a live state", RunWhatif},
    {"step-event", "one event into a live cluster", RunStepEvent},
    {.name = "memory",
     .what = "memory after 1,000,000 jobs, against that after 100,000 (minutes; only by name)",
     .run = RunMemory,
     .only_by_name = true},
    {"submit", "a job is durable: one client, 64 clients", RunSubmit},
    {"churn", "jobs started, ended and recorded per second", RunChurn},
    {"start-gang", "submit until all tasks of a gang run", RunStartGang},
    {"handover", "last victim gone until the beneficiary starts", RunHandover},
    {"restart", "process start until a big cluster is served", RunRestart},
    {"failover", "the leader is killed until a standby leads and starts jobs", RunFailover},
    {"agents", "CPU and memory for connected agents", RunAgents},
    {"start-container", "a container runs: by the agent, by runc alone", RunStartContainer},
    {"launch-storm", "1,024 ranks of 128 tasks run on one machine", RunLaunchStorm},
    {"fault-path", "a line of the kernel log is reported; a broken node is out", RunFaultPath},
    {"fault-burst", "1,000 of 2,000 nodes break in one moment until all are out", RunFaultBurst},
    {"recover", "a node breaks until its gang runs elsewhere", RunRecover},
    {"flash-cut", "a port is cut for a moment until the agent reports it", RunFlashCut},
    {"preflight", "a task is ordered where a port is cut until the agent refuses it", RunPreflight},
    {"kernel-log", "100,000 lines a second in an agent's kernel log", RunKernelLog},
    {"log-follow", "a line is written until `tide logs -f` has printed it", RunLogFollow},
    {"log-search", "1 GiB of a rank's output is searched", RunLogSearch},
    {"agent-idle", "an agent while its tasks run: CPU as a part of a core, memory", RunAgentIdle},
    {"log-writer", "a rank prints 50 MB/s: its step, the agent's heartbeats", RunLogWriter},
    {"jobs", "thousands of short jobs on 16 agents, and on Slurm", RunJobs},
    {"allreduce", "a sum over the ranks of several nodes, beside gloo's", RunAllreduce},
    {.name = "detect-hang",
     .what = "a rank of a job hangs until it is named; verdicts on clean jobs (an hour)",
     .run = RunDetectHang,
     .loads_sdk = true},
    {.name = "tick",
     .what = "what the SDK costs a training at each step",
     .run = RunTick,
     .loads_sdk = true},
    {.name = "checkpoint",
     .what = "a save of the SDK: its stall, its disk, its CPU, steps meanwhile",
     .run = RunCheckpoint,
     .loads_sdk = true},
    {.name = "load",
     .what = "a checkpoint that no cache holds is read",
     .run = RunLoad,
     .loads_sdk = true},
    {.name = "manifest",
     .what = "the records of a checkpoint of 1,024 ranks: commit, and read",
     .run = RunManifest,
     .loads_sdk = true},
    {.name = "suspend",
     .what = "`tide suspend` until all ranks stand, until the nodes are free",
     .run = RunSuspend,
     .loads_sdk = true},
    {"scaling", "cost against nodes and waiting jobs", RunScaling, ScalingTables},
};

struct MetricText {
  std::string_view name;
  std::string_view unit;
};

// By value of Metric.
constexpr MetricText kMetrics[kMetricCount] = {
    {"p50_ms", "ms"},
    {"p99_ms", "ms"},
    {"max_ms", "ms"},
    {"per_s", "1/s"},
    {"ratio", ""},
    {"count", ""},
    {"bytes", "B"},
    {"cpu_s", "s"},
    {"p50_ns", "ns"},
};

std::optional<Target> AtMostMs(const std::optional<double>& ms) {
  return ms ? std::optional<Target>(AtMost(*ms)) : std::nullopt;
}

}  // namespace

std::string_view MetricName(Metric metric) {
  return kMetrics[static_cast<int>(metric)].name;
}

std::string_view MetricUnit(Metric metric) {
  return kMetrics[static_cast<int>(metric)].unit;
}

bool Run::Wants(std::string_view what) const {
  return what.find(options_.filter) != std::string_view::npos;
}

Repeat Run::Times(size_t repetitions) const {
  Repeat repeat;
  repeat.most = quick() ? 3 : repetitions;
  repeat.warm_up = quick() ? 0 : 3;
  return repeat;
}

void Run::Add(std::string_view what,
              Metric metric,
              double value,
              size_t samples,
              std::optional<Target> target) {
  figures_.push_back({bench_, std::string(what), metric, value, samples, target});
  if (options_.on_figure) {
    options_.on_figure(figures_.back());
  }
}

void Run::AddTimes(std::string_view what, const Samples& samples, const TimeTargets& targets) {
  Add(what, Metric::kP50Ms, samples.PercentileMs(50), samples.size(), AtMostMs(targets.p50_ms));
  Add(what, Metric::kP99Ms, samples.PercentileMs(99), samples.size(), AtMostMs(targets.p99_ms));
  Add(what, Metric::kMaxMs, samples.PercentileMs(100), samples.size(), AtMostMs(targets.max_ms));
}

std::string CaseOn(StoreKind store, std::string_view what) {
  switch (store) {
    case StoreKind::kSqlite:
      return std::string(what);
    case StoreKind::kPostgres:
      return "PostgreSQL, " + std::string(what);
  }
  return "";
}

std::span<const Bench> Benches() {
  return kBenches;
}

}  // namespace tide::bench
