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
// Nothing in the way of a start waits for a disk. Its file system costs what it costs: an ext4
// without a journal looks in vain at each inode that was freed in the minutes before, those of the
// rounds before, too. The case on a disk shows that one.
constexpr const char* kMemory = "/dev/shm";

std::string Case(uint32_t count) {
  return std::to_string(count) + " tasks x " + std::to_string(kRanks);
}

// Says that it is there by one byte (a shell's echo would add one), and waits.
std::vector<std::string> Rank(const TaskPlace& place) {
  return {"/bin/sh", "-c", "printf x >" + place.shared() + "/up; : <" + place.shared() + "/never"};
}

agent::TaskConfig Task(const TaskPlace& place, uint32_t number) {
  agent::TaskConfig config;
  config.key = std::to_string(number + 1) + ".1.0";
  config.runtime = agent::RuntimeKind::kProcess;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    config.ranks.push_back({.rank = rank,
                            .local_rank = rank,
                            .env = {{"PATH", "/usr/bin:/bin"}},
                            .argv = Rank(place),
                            .cpus = {}});
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
void RunThroughAgent(Run& run, uint32_t count, const std::string& root, const std::string& how) {
  const std::string what = Case(count) + ", agent" + how;
  if (!run.Wants(what)) {
    return;
  }
  const TaskPlace place(root);
  OneAgent agent(place);
  Samples running;
  for (int round = 0; round < (run.quick() ? 1 : 5); ++round) {
    const int64_t start = MonotonicNanos();
    agent.StartMany(count, kRanks, Rank(place));
    running.Add(place.WaitUntilUp(size_t{count} * kRanks) - start);
    agent.WaitUntilRunning(count);
    agent.EndAll();
  }
  run.AddTimes(what, running, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
}

void RunByRuntime(Run& run, uint32_t count) {
  const std::string what = Case(count) + ", runtime";
  if (!run.Wants(what)) {
    return;
  }
  const TaskPlace place(kMemory);
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
  RunThroughAgent(run, count, kMemory, "");
  RunThroughAgent(run, count, "/var/tmp", " on disk");
}

}  // namespace tide::bench
