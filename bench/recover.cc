// recover: a node of a running gang breaks, until all its ranks run elsewhere: the platform's part,
// without loading a checkpoint. 128 agents that obey at once, so the start of a task takes no time
// there; and a whole `tide dev` of 4 nodes, with kernel logs, agents and processes.

#include <poll.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/benches.h"
#include "bench/daemons/cluster_watch.h"
#include "bench/daemons/dev_cluster.h"
#include "bench/daemons/fake_agents.h"
#include "bench/daemons/faults.h"
#include "bench/daemons/scheduler_process.h"
#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

constexpr TimeTargets kRecoverTargets = {.p50_ms = 30'000, .p99_ms = 90'000, .max_ms = {}};

uint32_t NumberOf(const std::string& node) {
  return static_cast<uint32_t>(std::stoul(node.substr(1)));
}

// Breaks a node of the gang after the other, until no spare is left.
void BreakNodes(StoreKind kind, uint32_t gang, uint32_t spares, Samples& samples) {
  const BenchStore store(kind);
  const SchedulerProcess scheduler(store, {.policy = kNoBreaker});
  FakeAgents agents(scheduler, {.count = gang + spares, .zones = 1});
  const ClusterWatch watch(scheduler);
  (void)watch.WaitForServing(gang + spares);
  SchedulerClient client(scheduler);
  const auto job = client.Submit(testing::AJob().Nodes(gang).Gpus(8).Spec());
  TIDE_CHECK(job.has_value(), "the gang is accepted");
  auto runs = watch.WaitForRunning(*job, 1);
  for (uint32_t i = 0; i < spares; ++i) {
    const std::string broken = runs.nodes.at(i * 37 % gang);
    const int64_t begin = MonotonicNanos();
    agents.ReportFault(NumberOf(broken), LostGpu());
    const auto again = watch.WaitForRunning(*job, runs.epoch + 1);
    TIDE_CHECK(again.epoch == runs.epoch + 1 && again.nodes.size() == gang,
               "the whole gang starts once more");
    for (const auto& [task, node] : again.nodes) {
      TIDE_CHECK(node != broken, "no rank runs on the broken node");
    }
    samples.Add(again.at_ns - begin);
    runs = again;
  }
}

void RecoverOn(Run& run, StoreKind kind) {
  const std::string what = CaseOn(kind, "128 nodes");
  if (!run.Wants(what)) {
    return;
  }
  Samples samples;
  for (int round = 0; round < (run.quick() ? 1 : 6); ++round) {
    if (run.quick()) {
      BreakNodes(kind, 6, 2, samples);
    } else {
      BreakNodes(kind, 120, 8, samples);
    }
  }
  run.AddTimes(what, samples, kRecoverTargets);
}

// Returns the attempt with this epoch as `tide show` prints it; null while it does not run.
nlohmann::json FindAttempt(const DevCluster& cluster, const std::string& job, uint64_t epoch) {
  const auto shown = nlohmann::json::parse(cluster.Tide({"show", job, "-o", "json"}));
  for (const auto& attempt : shown.at("attempts")) {
    if (attempt.at("epoch") == epoch && shown.at("state") == "running") {
      return attempt;
    }
  }
  return nullptr;
}

nlohmann::json WaitForAttempt(const DevCluster& cluster, const std::string& job, uint64_t epoch) {
  const int64_t give_up = MonotonicNanos() + Duration::Seconds(120).nanos();
  while (true) {
    auto attempt = FindAttempt(cluster, job, epoch);
    if (!attempt.is_null()) {
      return attempt;
    }
    TIDE_CHECK(MonotonicNanos() < give_up, "the gang runs within the time allowed");
    ::poll(nullptr, 0, 20);
  }
}

struct RealCase {
  std::string name;
  std::string rank;  // what each rank runs, of a shell
  size_t task = 0;   // whose node breaks
};

// A gang of 2 of the 4 nodes, which goes to the other zone. When it ran again is the scheduler's
// own time, so that looking for it adds nothing.
void BreakRealNodes(const RealCase& which, Samples& samples) {
  const TaskPlace place;
  const DevCluster cluster(place, 4);
  std::string job = cluster.Tide(
      {"run", "-n", "2", "--ranks-per-node", "2", "-o", "name", "--", "/bin/sh", "-c", which.rank});
  job = job.substr(0, job.find('\n'));
  const auto first = WaitForAttempt(cluster, job, 1);
  const std::string broken = first.at("tasks").at(which.task).at("node");
  const Instant begin = SystemNow();
  LineFile(cluster.KernelLogOf(broken)).Append(LostGpuLine("0000:a1:00") + "\n");
  const auto again = WaitForAttempt(cluster, job, 2);
  for (const auto& task : again.at("tasks")) {
    TIDE_CHECK(task.at("node") != broken, "no rank runs on the broken node");
  }
  const auto running = ParseRfc3339(again.at("running_at").get<std::string>());
  TIDE_CHECK(running.has_value() && *running > begin, "the attempt says when all its ranks ran");
  samples.Add((*running - begin).nanos());
}

void RecoverReally(Run& run) {
  RealCase cases[] = {
      {"4 real nodes", "exec sleep 1000"},
      // Those that do not leave when they are told to are killed after the grace of a fault.
      {"4 real nodes, deaf ranks", "trap '' TERM; while :; do sleep 1; done"}};
  for (RealCase& each : cases) {
    if (!run.Wants(each.name)) {
      continue;
    }
    Samples samples;
    for (int round = 0; round < (run.quick() ? 1 : 10); ++round) {
      each.task = static_cast<size_t>(round % 2);
      BreakRealNodes(each, samples);
    }
    run.AddTimes(each.name, samples, kRecoverTargets);
  }
}

}  // namespace

void RunRecover(Run& run) {
  OnEachStore(run, RecoverOn);
  RecoverReally(run);
}

}  // namespace tide::bench
