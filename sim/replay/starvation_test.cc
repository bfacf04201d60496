// A gang beside a stream of small jobs of its class that alone could fill the cluster: it starts.

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/draw.h"
#include "sim/replay/replay.h"
#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

using testing::Line;
using testing::TraceOf;

constexpr uint32_t kNodes = 16;
constexpr int64_t kHour = 3600;
constexpr int64_t kGangComes = 6 * kHour;

// Jobs of one node, each of a user of its own, come at random for `hours`.
//   load: the part of the cluster that they need.
std::vector<Line> Stream(int64_t run_s, double load, int64_t hours, uint64_t seed) {
  Draw draw(seed);
  const double gap = static_cast<double>(run_s) / (load * kNodes);
  std::vector<Line> lines;
  for (double at = 0; at < static_cast<double>(hours * kHour); at += draw.Exponential(gap)) {
    lines.push_back({static_cast<int64_t>(at), run_s, 8});
  }
  return lines;
}

// Seconds from its submission to its first start.
int64_t WaitOfGang(uint32_t nodes,
                   const std::vector<Line>& stream,
                   const ReplayOptions& options = {}) {
  std::vector<Line> lines = stream;
  const auto place = std::ranges::upper_bound(lines, kGangComes, {}, &Line::submit_s);
  const auto index = static_cast<size_t>(place - lines.begin());
  lines.insert(place, {kGangComes, kHour, nodes * 8});
  const auto run = ReplayTrace(TraceOf(lines), FlatCluster(kNodes, 8), options);
  if (!run) {
    FAIL(run.error().message);
  }
  const JobRecord& gang = run->jobs[index];
  return (gang.first_start_ms - gang.submit_ms) / 1000;
}

}  // namespace

TEST_CASE("starvation: a gang starts within two hours of any stream of small jobs") {
  for (const int64_t minutes : {5, 10, 30, 120}) {
    for (const double load : {0.8, 0.9, 1.0}) {
      for (const uint32_t nodes : {8U, 10U, 12U, 14U, 16U}) {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
          CAPTURE(minutes, load, nodes, seed);
          CHECK(WaitOfGang(nodes, Stream(minutes * 60, load, 12, seed)) <= 2 * kHour);
        }
      }
    }
  }
}

TEST_CASE("starvation: a gang that a fault stopped goes on beside a stream of small jobs") {
  std::vector<Line> lines = Stream(600, 1.0, 12, 1);
  for (Line& line : lines) {
    line.submit_s += 5 * kHour;
  }
  lines.insert(lines.begin(), {0, 8 * kHour, kNodes * 8});
  ReplayOptions options;
  options.costs.checkpoint_every_ms = 300'000;
  options.faults.trace = {{5 * kHour * 1000, 5 * kHour * 1000 + 180'000, 0, FaultClass::kGpu}};
  const auto run = ReplayTrace(TraceOf(lines), FlatCluster(kNodes, 8), options);
  REQUIRE(run.has_value());
  CHECK(run->jobs.front().faults == 1);
  CHECK(run->jobs.front().fault_wait_ms <= kHour * 1000);  // until the node is validated, mostly
}

TEST_CASE("starvation: where nobody takes turns, a gang waits for the end of the stream") {
  ReplayOptions options;
  options.policy.turn_ratio = 1000;
  CHECK(WaitOfGang(kNodes, Stream(600, 1.0, 12, 1), options) > 6 * kHour);
}

}  // namespace tide::sim
