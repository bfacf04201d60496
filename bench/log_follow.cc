// log-follow: from the moment at which a rank writes a line until `tide logs -f` has printed it,
// through the supervisor, its files, the agent, the API and the command line, all real.

#include <cstdlib>
#include <string>

#include "bench/benches.h"
#include "bench/daemons/dev_cluster.h"
#include "common/base/check.h"
#include "common/base/time.h"

namespace tide::bench {
namespace {

constexpr int kWarmUp = 5;

// `ranks` ranks that each print what time it is, `lines` times.
std::string Submit(const DevCluster& cluster, int lines, int ranks) {
  const std::string program = "import time\nfor _ in range(" + std::to_string(lines + 200) +
                              "):\n print(time.time_ns(), flush=True)\n time.sleep(0.017)\n";
  std::string job = cluster.Tide({"run",
                                  "--ranks-per-node",
                                  std::to_string(ranks),
                                  "-o",
                                  "name",
                                  "--",
                                  "/usr/bin/python3",
                                  "-c",
                                  program});
  return job.substr(0, job.find('\n'));
}

Samples Follow(const DevCluster& cluster, const std::string& rank, int lines, int ranks) {
  const std::string job = Submit(cluster, lines, ranks);
  Samples samples;
  int seen = 0;
  cluster.TideLines({"logs", "-f", job, "--rank", rank}, [&](const char* line) {
    const std::string text = line;
    const size_t prefix = text.find("| ");
    const int64_t at =
        std::strtoll(text.c_str() + (prefix == std::string::npos ? 0 : prefix + 2), nullptr, 10);
    TIDE_CHECK(at != 0, "a line says when it was written");
    if (++seen > kWarmUp * ranks) {
      samples.Add(SystemNow().unix_nanos() - at);
    }
    return seen < (lines + kWarmUp) * ranks;
  });
  TIDE_CHECK(samples.size() > 0, "lines come");
  (void)cluster.Tide({"cancel", job});
  return samples;
}

}  // namespace

void RunLogFollow(Run& run) {
  if (!run.Wants("1 rank") && !run.Wants("4 ranks, merged")) {
    return;
  }
  const int lines = run.quick() ? 5 : 500;
  const TaskPlace place;
  const DevCluster cluster(place);
  run.AddTimes(
      "1 rank", Follow(cluster, "0", lines, 1), {.p50_ms = {}, .p99_ms = 200, .max_ms = {}});
  run.AddTimes("4 ranks, merged",
               Follow(cluster, "all", lines, 4),
               {.p50_ms = {}, .p99_ms = 200, .max_ms = {}});
}

}  // namespace tide::bench
