#include "bench/worlds.h"

#include <algorithm>

#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

constexpr uint32_t kUsers = 200;
constexpr uint32_t kProjects = 20;

// A gang of a mix takes at most this part of a zone, so that small clusters have queues, too.
constexpr uint32_t kPartOfZone = 8;

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

World::World(uint32_t zones, uint32_t nodes_per_zone, uint32_t nodes_per_leaf)
    : nodes_in_zone_(nodes_per_zone) {
  testing::Cluster cluster;
  for (uint32_t zone = 0; zone < zones; ++zone) {
    cluster.Zone(std::string(1, static_cast<char>('A' + zone)));
    for (uint32_t left = nodes_per_zone; left > 0; left -= std::min(left, nodes_per_leaf)) {
      cluster.Leaf(std::min(left, nodes_per_leaf));
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
  return StartOn(nodes, prng_.Below(kUsers), std::move(spec), started);
}

JobId World::StartOn(const std::vector<NodeId>& nodes,
                     uint64_t user,
                     JobSpec spec,
                     Instant started) {
  spec.nodes = static_cast<uint32_t>(nodes.size());
  const JobId id = Submit(spec, "user" + std::to_string(user));
  Do(JobPlaced{id, Epoch(1), {nodes, 0}}, started);
  Report(id, TaskState::kRunning, started);
  return id;
}

void World::Report(JobId job, TaskState task_state, Instant at) {
  const std::vector<NodeId> nodes = AllocationOf(state.jobs.at(job))->nodes;
  for (uint32_t task = 0; task < nodes.size(); ++task) {
    TaskReported report;
    report.node = nodes[task];
    report.job = job;
    report.epoch = Epoch(1);
    report.task = task;
    report.state = task_state;
    report.at = at;
    if (task_state == TaskState::kExited) {
      report.exit.reason = ExitReason::kSucceeded;
    }
    Do(report, at);
  }
}

void World::RunAndEnd(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t user = prng_.Below(kUsers);
    JobSpec spec = testing::AJob().Gpus(8).Spec();
    spec.project = "project" + std::to_string(user % kProjects);
    const uint32_t size = DrawNodes(64);
    std::vector<NodeId> nodes;
    for (uint32_t node = 0; node < size; ++node) {
      nodes.emplace_back(node);
    }
    const Duration ran = Duration::Seconds(1 + static_cast<int64_t>(prng_.Below(36'000)));
    Report(StartOn(nodes, user, spec, now - ran), TaskState::kExited, now);
  }
}

void World::Drain(NodeId node) {
  Do(DrainRequested{node, "operator", "new fan"}, now);
}

uint32_t World::DrawNodes(uint32_t most) {
  auto draw = static_cast<uint32_t>(prng_.Below(1000));
  for (const SizeShare& size : kSizes) {
    if (draw < size.per_mille) {
      return std::min({size.nodes, most, std::max(1U, nodes_in_zone_ / kPartOfZone)});
    }
    draw -= size.per_mille;
  }
  return 1;
}

void World::Fill(const Running& running) {
  const auto end = static_cast<uint32_t>(state.nodes.size());
  for (uint32_t next = 0; next < end;) {
    const uint32_t zone_end = next < nodes_in_zone_ ? nodes_in_zone_ : end;
    const uint32_t size = DrawNodes(running.most);
    std::vector<NodeId> nodes;
    for (; next < zone_end && nodes.size() < size; ++next) {
      if (TakesWork(state.nodes[next])) {
        nodes.emplace_back(next);
      }
    }
    const int32_t priority = running.classes[prng_.Below(running.classes.size())];
    if (!nodes.empty() && prng_.Below(100) < running.busy_percent) {
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
    JobSpec spec = testing::AJob().Nodes(DrawNodes(512)).Priority(priority).Gpus(8).Spec();
    const uint64_t user = prng_.Below(kUsers);
    spec.project = "project" + std::to_string(user % kProjects);
    Submit(spec, "user" + std::to_string(user));
  }
}

void World::Settle() {
  const StepResult result = Step(state, {}, policy, now);
  for (const Event& event : result.log) {
    TIDE_CHECK(!std::holds_alternative<JobPlaced>(event.body) &&
                   !std::holds_alternative<SuspendRequested>(event.body),
               "the world is at rest");
  }
}

World BusyWorld(uint32_t nodes, uint32_t pending) {
  World world(nodes);
  world.Fill({.classes = {kVeryHigh}});
  world.SubmitMix(pending, kHigh);
  world.Settle();
  return world;
}

World HalfBusyWorld(uint32_t nodes) {
  World world(nodes);
  world.Fill({.classes = {kVeryHigh}, .most = 64, .busy_percent = 50});
  world.Settle();
  return world;
}

World WaitingWorld(uint32_t nodes, uint32_t pending) {
  World world(nodes);
  world.SubmitMix(pending, kHigh);
  world.state.changed = ChangeSet();  // as after a commit
  return world;
}

}  // namespace tide::bench
