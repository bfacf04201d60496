#include "bench/worlds.h"

#include <algorithm>

#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"

namespace tide::bench {
namespace {

constexpr uint32_t kUsers = 200;
constexpr uint32_t kProjects = 20;

// Jobs that take turns: waiting ones have come, or were suspended, so long ago at most, and running
// ones have started.
constexpr Duration kLongestWait = Duration::Minutes(600);
constexpr Duration kLongestTurn = Duration::Minutes(120);

// Times that waiting has slowed a job down, in hundredths, drawn evenly.
struct Slowed {
  int64_t least;
  int64_t most;
};
constexpr Slowed kRunningSlowed{500, 1000};
constexpr Slowed kWaitingSlowed{200, 750};
constexpr Slowed kMostSlowed{850, 950};  // of the few that may take nodes
constexpr uint32_t kFewIn = 20;

std::string UserName(uint64_t user) {
  return "user" + std::to_string(user);
}

std::string ProjectOf(uint64_t user) {
  return "project" + std::to_string(user % kProjects);
}

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

std::vector<NodeId> NodesFrom(uint32_t first, uint32_t count) {
  std::vector<NodeId> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    nodes.emplace_back(first + i);
  }
  return nodes;
}

int64_t Draw(const Slowed& slowed, Prng& prng) {
  return slowed.least +
         static_cast<int64_t>(prng.Below(static_cast<uint64_t>(slowed.most - slowed.least)));
}

// How long a job ran that waited so long and was slowed down so many times; nothing if it was
// slowed down less. Shorter spans than the half-life of a slowdown, so that this is near enough.
Duration RanToBeSlowed(Duration waited, int64_t hundredths, const Policy& policy) {
  const Duration counted = Duration::Millis(waited.millis() * 100 / (hundredths - 100));
  return std::max(Duration(), counted - policy.minimum_run);
}

Duration WaitedToBeSlowed(Duration ran, int64_t hundredths, const Policy& policy) {
  return Duration::Millis((ran + policy.minimum_run).millis() * (hundredths - 100) / 100);
}

// Rows for the first projects and users. All use more than what is theirs: who does not has taken
// it back. A project has half of what it would have of equal parts for itself.
void AddQuotas(uint32_t nodes, const Crowd& crowd, Policy& policy) {
  const auto add = [&](QuotaRow::Subject subject, const std::string& name, uint32_t part) {
    QuotaRow row;
    row.subject = subject;
    row.name = name;
    row.nodes = std::max(1U, nodes / part / 2);
    row.limit = std::max(1U, nodes / part * 2);
    policy.quotas.push_back(row);
  };
  for (uint32_t i = 0; i < crowd.quota_rows / 2; ++i) {
    add(QuotaRow::Subject::kProject, ProjectOf(i), kProjects);
    add(QuotaRow::Subject::kUser, UserName(i), crowd.users);
  }
}

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

JobId World::Submit(const JobSpec& spec, const std::string& user, Instant at) {
  const JobId id(state.next_job_id);
  Do(JobSubmitted{id, spec, user, ""}, at);
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
  const JobId id = Submit(spec, UserName(user));
  Place(id, nodes, started);
  return id;
}

void World::Place(JobId job, const std::vector<NodeId>& nodes, Instant at) {
  Do(JobPlaced{job, Epoch(1), {nodes, 0}}, at);
  Report(job, TaskState::kRunning, at);
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
      const JobState phase = StateOf(state.jobs.at(job));
      report.exit.reason =
          phase == JobState::kSaving ? ExitReason::kSuspended : ExitReason::kSucceeded;
    }
    Do(report, at);
  }
}

void World::RunAndEnd(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t user = prng_.Below(kUsers);
    JobSpec spec = testing::AJob().Gpus(8).Spec();
    spec.project = ProjectOf(user);
    const uint32_t size = DrawNodes(64);
    const std::vector<NodeId> nodes = NodesFrom(0, size);
    const Duration ran = Duration::Seconds(1 + static_cast<int64_t>(prng_.Below(36'000)));
    Report(StartOn(nodes, user, spec, now - ran), TaskState::kExited, now);
  }
}

void World::RunLongAgo(uint32_t owners) {
  const Instant long_ago = now - Duration::Minutes(60 * 24 * 30);
  for (uint32_t i = 0; i < owners; ++i) {
    const JobId id = Submit(testing::AJob().Gpus(8).Spec(), "past" + std::to_string(i), long_ago);
    Place(id, NodesFrom(0, 1), long_ago);
    Report(id, TaskState::kExited, long_ago + Duration::Minutes(60));
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
    spec.project = ProjectOf(user);
    Submit(spec, UserName(user));
  }
}

Duration World::DrawSpan(Duration longest) {
  return Duration::Seconds(
      static_cast<int64_t>(prng_.Below(static_cast<uint64_t>(longest.millis() / 1000))));
}

JobSpec World::DrawSpec(uint64_t user) {
  JobSpec spec = testing::AJob().Nodes(DrawNodes(512)).Priority(kNormal).Gpus(8).Spec();
  spec.project = ProjectOf(user);
  return spec;
}

void World::Suspend(JobId job, Instant at) {
  Do(SuspendRequested{job, StopCause::kDrained, JobId(), at, "new fan"}, at);
  Report(job, TaskState::kExited, at);
}

void World::WaitInTurns(uint32_t count, uint32_t users) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t user = prng_.Below(users);
    const JobSpec spec = DrawSpec(user);
    const Duration waited = DrawSpan(kLongestWait);
    const Slowed& slowed = i % kFewIn == 0 ? kMostSlowed : kWaitingSlowed;
    const Duration ran = RanToBeSlowed(waited, Draw(slowed, prng_), policy);
    const Instant submitted = now - waited - ran;
    const JobId id = Submit(spec, UserName(user), submitted);
    if (ran.nanos() > 0) {
      Place(id, NodesFrom(0, spec.nodes), submitted);
      Suspend(id, submitted + ran);
    }
  }
}

void World::FillInTurns(uint32_t users) {
  const auto end = static_cast<uint32_t>(state.nodes.size());
  for (uint32_t next = 0; next < end;) {
    const uint64_t user = prng_.Below(users);
    JobSpec spec = DrawSpec(user);
    const uint32_t zone_end = next < nodes_in_zone_ ? nodes_in_zone_ : end;
    spec.nodes = std::min(spec.nodes, zone_end - next);
    const Duration ran = DrawSpan(kLongestTurn);
    const Duration waited = WaitedToBeSlowed(ran, Draw(kRunningSlowed, prng_), policy);
    const JobId id = Submit(spec, UserName(user), now - ran - waited);
    Place(id, NodesFrom(next, spec.nodes), now - ran);
    next += spec.nodes;
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

World CrowdedWorld(uint32_t nodes, uint32_t pending, const Crowd& crowd) {
  World world(nodes);
  AddQuotas(nodes, crowd, world.policy);
  world.RunLongAgo(crowd.past_owners);
  world.WaitInTurns(pending, crowd.users);
  world.FillInTurns(crowd.users);
  world.state.changed = ChangeSet();  // as after a commit
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
