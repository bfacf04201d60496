// place-one: what it costs to find the nodes of one gang on a half-busy cluster, as a whole
// decision with nothing else waiting.

#include <iterator>
#include <string>

#include "bench/benches.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/decide.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {

namespace {

// Has one gang placed again and again by whole decisions.
void PlaceOne(Run& run,
              const std::string& what,
              World world,
              const testing::AJob& gang,
              const TimeTargets& targets) {
  world.Submit(gang.Spec(), "ada");
  const Samples samples = Measure(run.Times(500), [&] {
    Decision decision = Decide(world.state, world.policy, world.now);
    TIDE_CHECK(decision.proposals.size() == 1 &&
                   std::holds_alternative<JobPlaced>(decision.proposals.front()),
               "there is room for the gang");
    return decision;
  });
  run.AddTimes(what, samples, targets);
}

// Returns the fabric of configs/tapered.yaml with the limits of its boundaries, one of which is
// used up by a job that crosses already.
World BoundedWorld(uint32_t nodes_in_zone) {
  constexpr char kZones[] = {'A', 'B', 'C', 'D', 'E', 'F'};
  World world(std::size(kZones), nodes_in_zone, 2);
  world.policy.cross_zone_jobs_max = 3;
  for (const char zone : kZones) {
    for (char next = static_cast<char>(zone + 1); next <= kZones[5]; ++next) {
      Boundary boundary{std::string(1, zone), std::string(1, next)};
      boundary.jobs_max = 1;
      boundary.pairs_max = 14;
      world.policy.boundaries.push_back(boundary);
    }
  }
  world.RunOn({NodeId(0), NodeId(nodes_in_zone)},
              testing::AJob().Nodes(2).Gpus(8).Zone("cross-ok").Spec(),
              world.now);
  return world;
}

}  // namespace

void RunPlaceOne(Run& run) {
  const World half_busy = HalfBusyWorld(run.quick() ? 64 : kNodes);
  for (const uint32_t nodes : {1U, 8U, 64U, 512U}) {
    const std::string what = std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
    if (!run.Wants(what) || nodes > half_busy.state.nodes.size() / 8) {
      continue;
    }
    // Promised: 0.2 ms for any gang, 1 ms for 512 nodes.
    PlaceOne(run,
             what,
             half_busy,
             testing::AJob().Nodes(nodes).Gpus(8),
             {.p50_ms = {}, .p99_ms = nodes < 512 ? 0.2 : 1, .max_ms = {}});
  }
  // 16,384 of the 24,576 GPUs of configs/tapered.yaml: four of its six zones, of 256 racks of two
  // nodes.
  const uint32_t nodes = run.quick() ? 64 : 2048;
  if (const std::string what = "four zones"; run.Wants(what)) {
    PlaceOne(run,
             what,
             World(6, nodes / 4, 2),
             testing::AJob().Nodes(nodes).Gpus(8).Zone("cross-ok"),
             {.p50_ms = {}, .p99_ms = 1, .max_ms = {}});
  }
  if (const std::string what = "four zones, boundaries with limits"; run.Wants(what)) {
    PlaceOne(run,
             what,
             BoundedWorld(nodes / 4),
             testing::AJob().Nodes(nodes).Gpus(8).Zone("cross-ok"),
             {.p50_ms = {}, .p99_ms = 1, .max_ms = {}});
  }
}

}  // namespace tide::bench
