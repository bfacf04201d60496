// log-writer: a rank that prints 50 MB/s through the supervisor, and the same rank writing to a
// file, by turns: what a step takes, and whether its agent's heartbeats come in time.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "agent/logs/log_search.h"
#include "bench/benches.h"
#include "bench/daemons/one_agent.h"
#include "common/base/check.h"

namespace tide::bench {
namespace {

// A step computes about 19 ms and writes 1 MiB. Turns of 25 steps go to stdout and to a file; each
// is timed as a whole, and the first turn of each is not kept.
constexpr const char* kRank = R"(
import os, sys, time, zlib
turns, folder = int(sys.argv[1]), sys.argv[2]
data = b'y' * (1 << 20)
lines = (b'x' * 127 + b'\n') * (1 << 13)
begin = time.process_time()  # whatever else runs now must not make the steps shorter
for _ in range(200):
    zlib.crc32(data)
rounds = max(1, int(0.019 * 200 / (time.process_time() - begin)))
file = os.open(folder + '/rank.out', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def write_all(fd):
    left = memoryview(lines)
    while left:
        left = left[os.write(fd, left):]

with open(folder + '/steps', 'w') as steps:
    for turn in range(2 * turns):
        os.ftruncate(file, 0)
        for _ in range(25):
            began = time.monotonic_ns()
            for _ in range(rounds):
                zlib.crc32(data)
            write_all(1 if turn % 2 == 0 else file)
            if turn >= 2:
                steps.write('%d %d\n' % (turn % 2, time.monotonic_ns() - began))
)";
constexpr size_t kStepBytes = size_t{1} << 20U;
constexpr size_t kStepsOfTurn = 25;

// Lines of the supervisor that say that something was dropped.
size_t Dropped(const std::string& folder) {
  agent::LogFile log(folder, 0);
  TIDE_CHECK(log.Refresh().has_value(), "the log is there");
  const auto matcher = agent::LineMatcher::Make({"[tide] ", true});
  agent::LogSearch search(log, *matcher, 0);
  std::vector<agent::FoundLine> found;
  while (search.Step(log.End().value_or(0), true, 1000, found).value_or(false)) {
  }
  return found.size();
}

}  // namespace

void RunLogWriter(Run& run) {
  if (!run.Wants("step, stdout")) {
    return;
  }
  const size_t turns = run.quick() ? 2 : 50;
  const TaskPlace place;
  std::ofstream(place.shared() + "/rank.py") << kRank;
  OneAgent agent(place);
  agent.Start(
      {"/usr/bin/python3", place.shared() + "/rank.py", std::to_string(turns), place.shared()});
  agent.WaitUntilOver(300);
  const Samples beats = agent.BeatIntervals();
  Samples to_stdout;
  Samples to_file;
  std::ifstream steps(place.shared() + "/steps");
  int64_t nanos = 0;
  for (int where = 0; steps >> where >> nanos;) {
    (where == 0 ? to_stdout : to_file).Add(nanos);
  }
  TIDE_CHECK(to_stdout.size() == (turns - 1) * kStepsOfTurn, "every step is timed");
  agent::LogFile log(agent.LogsFolder(), 0);
  TIDE_CHECK(log.Refresh() && log.End(), "the log is there");
  run.AddTimes("step, stdout", to_stdout);
  run.AddTimes("step, file", to_file);
  run.Add("stdout / file",
          Metric::kRatio,
          to_stdout.SumMs() / to_file.SumMs(),
          to_stdout.size(),
          AtMost(1.02));
  run.Add("stdout, MiB/s",
          Metric::kPerS,
          static_cast<double>(to_stdout.size()) * (kStepBytes >> 20U) / (to_stdout.SumMs() / 1000),
          to_stdout.size());
  run.Add("drops", Metric::kCount, static_cast<double>(Dropped(agent.LogsFolder())), 1, AtMost(0));
  run.Add("missing",
          Metric::kBytes,
          static_cast<double>(turns * kStepsOfTurn * kStepBytes) - static_cast<double>(*log.End()),
          1,
          AtMost(0));
  if (beats.size() > 0) {
    run.AddTimes("heartbeats", beats, {.p50_ms = {}, .p99_ms = 1200, .max_ms = {}});
  }
}

}  // namespace tide::bench
