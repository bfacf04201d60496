// scaling: how the cost of a decision grows with the nodes and with the jobs that wait. A case is
// named "decide NODES x WAITING".

#include <fmt/core.h>

#include <map>
#include <optional>
#include <sstream>

#include "bench/benches.h"
#include "bench/output.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

void AddPoint(Run& run, const std::string& what, const Samples& samples) {
  run.Add(what, Metric::kP50Ms, samples.PercentileMs(50), samples.size());
  run.Add(what, Metric::kP99Ms, samples.PercentileMs(99), samples.size());
}

// A full decision, and one report into the same cluster.
void MeasureBusy(Run& run, uint32_t nodes, uint32_t pending) {
  const std::string decide = fmt::format("decide {} x {}", nodes, pending);
  const std::string report = fmt::format("report {} x {}", nodes, pending);
  if (!run.Wants(decide) && !run.Wants(report)) {
    return;
  }
  World world = BusyWorld(nodes, pending);
  if (run.Wants(decide)) {
    AddPoint(run, decide, Measure(run.Times(30), [&] {
               Decision decision = Decide(world.state, world.policy, world.now);
               return decision;
             }));
    TIDE_CHECK(Decide(world.state, world.policy, world.now).explanations.All(world.state).size() ==
                   pending,
               "every waiting job has reasons");
  }
  if (run.Wants(report)) {
    const Job& job = world.state.jobs.at(*world.state.live.begin());
    TaskReported saved;
    saved.node = job.attempts.back().tasks.front().node;
    saved.job = job.id;
    saved.epoch = job.attempts.back().epoch;
    saved.state = TaskState::kRunning;
    saved.saved_at = world.now;
    AddPoint(run, report, Measure(run.Times(30), [&] {
               ++saved.saved_step;
               const std::vector<Event> events = {{world.now, saved}};
               return Step(world.state, events, world.policy, world.now);
             }));
  }
}

// One gang on a half-busy cluster; nothing else waits.
void MeasurePlacement(Run& run, uint32_t nodes) {
  const std::string what = fmt::format("place {} x 1", nodes);
  if (!run.Wants(what)) {
    return;
  }
  World world = HalfBusyWorld(nodes);
  world.Submit(testing::AJob().Nodes(8).Gpus(8).Spec(), "ada");
  AddPoint(run, what, Measure(run.Times(100), [&] {
             Decision decision = Decide(world.state, world.policy, world.now);
             TIDE_CHECK(decision.proposals.size() == 1, "there is room for the gang");
             return decision;
           }));
}

struct Size {
  uint32_t nodes = 0;
  uint32_t pending = 0;
  auto operator<=>(const Size&) const = default;
};

struct Point {
  std::string measure;  // decide, report or place
  Size size;
};

std::optional<Point> ParseCase(const std::string& what) {
  std::istringstream words(what);
  Point point;
  std::string times;
  if (words >> point.measure >> point.size.nodes >> times >> point.size.pending) {
    return point;
  }
  return std::nullopt;
}

// p50 by size and measure.
using Points = std::map<Size, std::map<std::string, double>>;

std::string Cell(const Points& points, Size size, const std::string& measure) {
  const auto row = points.find(size);
  if (row == points.end() || !row->second.contains(measure)) {
    return "";
  }
  return FormatValue(row->second.at(measure));
}

}  // namespace

std::string ScalingTables(const std::vector<Figure>& figures) {
  Points points;
  for (const Figure& figure : figures) {
    const auto point = ParseCase(figure.what);
    if (point && figure.metric == Metric::kP50Ms) {
      points[point->size][point->measure] = figure.value;
    }
  }
  std::string nodes = "| nodes | waiting | decide | one report | place 8 nodes |\n";
  nodes += "|---:|---:|---:|---:|---:|\n";
  std::string pending = "| nodes | waiting | decide | one report |\n|---:|---:|---:|---:|\n";
  for (const auto& [size, row] : points) {
    if (size.pending == 1) {
      continue;  // shown with the nodes
    }
    const std::string cells = fmt::format("| {} | {} | {} | {} |",
                                          size.nodes,
                                          size.pending,
                                          Cell(points, size, "decide"),
                                          Cell(points, size, "report"));
    if (size.pending == kPending) {
      nodes += fmt::format("{} {} |\n", cells, Cell(points, {size.nodes, 1}, "place"));
    }
    if (size.nodes == kNodes) {
      pending += cells + "\n";
    }
  }
  return nodes + "\n" + pending;
}

void RunScaling(Run& run) {
  const uint32_t nodes_fixed = run.quick() ? 64 : kNodes;
  const uint32_t pending_fixed = run.quick() ? 60 : kPending;
  const std::vector<uint32_t> nodes =
      run.quick() ? std::vector<uint32_t>{100, 200}
                  : std::vector<uint32_t>{100, 300, 1000, 3000, 10'000, 30'000};
  const std::vector<uint32_t> pending =
      run.quick() ? std::vector<uint32_t>{10, 30}
                  : std::vector<uint32_t>{100, 300, 1000, 3000, 30'000, 100'000};
  for (const uint32_t count : nodes) {
    MeasureBusy(run, count, pending_fixed);
  }
  for (const uint32_t count : pending) {
    MeasureBusy(run, nodes_fixed, count);
  }
  for (const uint32_t count : nodes) {
    MeasurePlacement(run, count);
  }
}

}  // namespace tide::bench
