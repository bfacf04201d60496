// launch-storm: many tasks are ordered at once on one machine, until each of their ranks runs; with
// plain processes, as an agent starts them where there are no containers.

#include <csignal>
#include <string>
#include <vector>

#include "agent/runtime/supervised_runtime.h"
#include "bench/benches.h"
#include "bench/daemons/one_agent.h"
#include "bench/daemons/program.h"
#include "bench/daemons/task_place.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

constexpr uint32_t kRanks = 8;

agent::TaskConfig Task(const TaskPlace& place, uint32_t number) {
  agent::TaskConfig config;
  config.key = std::to_string(number + 1) + ".1.0";
  config.runtime = agent::RuntimeKind::kProcess;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    // A byte: a shell's echo would add one.
    config.ranks.push_back(
        {.rank = rank,
         .local_rank = rank,
         .env = {{"PATH", "/usr/bin:/bin"}},
         .argv = {"/bin/sh", "-c", "printf x >" + place.shared() + "/up; exec sleep 60"}});
  }
  config.uid = ::geteuid();
  config.gid = ::getegid();
  config.init_path = ProgramBeside("tide-init");
  return config;
}

void EndAll(agent::SupervisedRuntime& runtime, const std::vector<agent::TaskConfig>& tasks) {
  for (const agent::TaskConfig& task : tasks) {
    TIDE_CHECK(runtime.Kill(task.key).has_value(), "a task can be ended");
  }
  for (const agent::TaskConfig& task : tasks) {
    while (true) {
      const auto status = runtime.Query(task.key);
      TIDE_CHECK(status.has_value() && status->error.empty(), "a task is known and well");
      if (status->finished) {
        break;
      }
    }
    TIDE_CHECK(runtime.Remove(task.key, false).has_value(), "it can be forgotten");
  }
}

// By orders of a scheduler to a real agent: journal, checks, pages and reports are in it, too.
void RunThroughAgent(Run& run, uint32_t count) {
  const std::string what =
      std::to_string(count) + " tasks of " + std::to_string(kRanks) + " ranks, by an agent";
  if (!run.Wants(what)) {
    return;
  }
  const TaskPlace place;
  OneAgent agent(place);
  Samples running;
  for (int round = 0; round < (run.quick() ? 1 : 5); ++round) {
    const int64_t start = MonotonicNanos();
    agent.StartMany(
        count, kRanks, {"/bin/sh", "-c", "printf x >" + place.shared() + "/up; exec sleep 60"});
    running.Add(place.WaitUntilUp(size_t{count} * kRanks) - start);
    agent.WaitUntilRunning(count);
    agent.EndAll();
  }
  run.AddTimes(what, running, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
}

void RunByRuntime(Run& run, uint32_t count) {
  const std::string what = std::to_string(count) + " tasks of " + std::to_string(kRanks) + " ranks";
  if (!run.Wants(what)) {
    return;
  }
  const TaskPlace place;
  auto runtime = agent::SupervisedRuntime::Open(place.path() + "/agent");
  TIDE_CHECK(runtime.has_value(), "the runtime's folder can be made");
  std::vector<agent::TaskConfig> tasks;
  for (uint32_t number = 0; number < count; ++number) {
    tasks.push_back(Task(place, number));
  }
  Samples ordered;
  Samples running;
  for (int round = 0; round < (run.quick() ? 1 : 5); ++round) {
    const int64_t start = MonotonicNanos();
    for (const agent::TaskConfig& task : tasks) {
      TIDE_CHECK((*runtime)->Start(task).has_value(), "a task starts");
    }
    ordered.Add(MonotonicNanos() - start);
    running.Add(place.WaitUntilUp(size_t{count} * kRanks) - start);
    EndAll(**runtime, tasks);
  }
  run.AddTimes(what + ", ordered", ordered);
  run.AddTimes(what, running, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
}

}  // namespace

void RunLaunchStorm(Run& run) {
  const uint32_t count = run.quick() ? 2 : 128;
  RunByRuntime(run, count);
  RunThroughAgent(run, count);
}

}  // namespace tide::bench
