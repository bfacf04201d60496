#include "bench/worlds.h"

#include <algorithm>

#include "common/base/check.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

constexpr uint32_t kNodesPerLeaf = 16;
constexpr uint32_t kUsers = 200;
constexpr uint32_t kProjects = 20;
constexpr int32_t kVeryHigh = 40;
constexpr int32_t kHigh = 30;

// Shares of job sizes, per thousand: mostly small, nodes mostly in large ones, as in public traces
// of training clusters.
struct SizeShare {
  uint32_t nodes;
  uint32_t per_mille;
};
constexpr SizeShare kSizes[] = {{1, 480},
                                {2, 160},
                                {4, 130},
                                {8, 110},
                                {16, 60},
                                {32, 35},
                                {64, 15},
                                {128, 6},
                                {256, 3},
                                {512, 1}};

}  // namespace

World::World(uint32_t nodes) : nodes_in_zone_(nodes / 2) {
  TIDE_CHECK(nodes >= 2 && nodes % 2 == 0, "two zones of the same size");
  testing::Cluster cluster;
  for (const char* zone : {"A", "B"}) {
    cluster.Zone(zone);
    for (uint32_t left = nodes_in_zone_; left > 0; left -= std::min(left, kNodesPerLeaf)) {
      cluster.Leaf(std::min(left, kNodesPerLeaf));
    }
  }
  for (const NodeJoined& join : cluster.Joins()) {
    Do(join, now);
  }
}

void World::Do(EventBody body, Instant at) {
  const Result<Applied> applied = Apply(state, {at, std::move(body)});
  TIDE_CHECK(applied && *applied == Applied::kChanged, "a world is built of legal events");
}

JobId World::Submit(const JobSpec& spec, const std::string& user) {
  const JobId id(state.next_job_id);
  Do(JobSubmitted{id, spec, user, ""}, now);
  return id;
}

JobId World::RunOn(const std::vector<NodeId>& nodes, JobSpec spec, Instant started) {
  spec.nodes = static_cast<uint32_t>(nodes.size());
  const JobId id = Submit(spec, "user" + std::to_string(prng_.Below(kUsers)));
  Do(JobPlaced{id, Epoch(1), {nodes, 0}}, started);
  for (uint32_t task = 0; task < nodes.size(); ++task) {
    TaskReported report;
    report.node = nodes[task];
    report.job = id;
    report.epoch = Epoch(1);
    report.task = task;
    report.state = TaskState::kRunning;
    report.at = started;
    Do(report, started);
  }
  return id;
}

void World::Drain(NodeId node) {
  Do(DrainRequested{node, "operator", "new fan"}, now);
}

uint32_t World::DrawNodes(uint32_t most) {
  auto draw = static_cast<uint32_t>(prng_.Below(1000));
  for (const SizeShare& size : kSizes) {
    if (draw < size.per_mille) {
      return std::min(size.nodes, most);
    }
    draw -= size.per_mille;
  }
  return 1;
}

uint32_t World::LargestGang() const {
  return std::max<uint32_t>(1, nodes_in_zone_ / 8);
}

void World::RunMix(int32_t priority, uint32_t most, uint32_t busy_percent) {
  const auto end = static_cast<uint32_t>(state.nodes.size());
  for (uint32_t first = 0; first < end;) {
    const uint32_t zone_end = first < nodes_in_zone_ ? nodes_in_zone_ : end;
    const uint32_t size = std::min({DrawNodes(most), LargestGang(), zone_end - first});
    std::vector<NodeId> nodes;
    for (uint32_t i = 0; i < size; ++i) {
      nodes.emplace_back(first + i);
    }
    first += size;
    if (prng_.Below(100) < busy_percent) {
      const Duration ran = Duration::Seconds(static_cast<int64_t>(prng_.Below(36'000)));
      RunOn(nodes, testing::AJob().Priority(priority).Spec(), now - ran);
    }
  }
}

void World::SubmitMix(uint32_t count, int32_t highest) {
  std::vector<int32_t> classes;
  for (const PriorityClass& each : kPriorityClasses) {
    if (each.value <= highest) {
      classes.push_back(each.value);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t priority = classes[prng_.Below(classes.size())];
    const uint32_t nodes = std::min(DrawNodes(512), LargestGang());
    JobSpec spec = testing::AJob().Nodes(nodes).Priority(priority).Gpus(8).Spec();
    const uint64_t user = prng_.Below(kUsers);
    spec.project = "project" + std::to_string(user % kProjects);
    Submit(spec, "user" + std::to_string(user));
  }
}

World BusyWorld(uint32_t nodes, uint32_t pending) {
  World world(nodes);
  world.RunMix(kVeryHigh, 512);
  world.SubmitMix(pending, kHigh);
  world.Settle();
  return world;
}

World HalfBusyWorld(uint32_t nodes) {
  World world(nodes);
  world.RunMix(kVeryHigh, 64, 50);
  world.Settle();
  return world;
}

World WaitingWorld(uint32_t nodes, uint32_t pending) {
  World world(nodes);
  world.SubmitMix(pending, kHigh);
  world.Settle();
  return world;
}

}  // namespace tide::bench
