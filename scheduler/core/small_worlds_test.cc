// Every small world against brute force: up to 4 nodes in 2 zones, 3 jobs of 3 sizes and 3 classes,
// each followed by every single change. What Decide does for the first job in order is compared
// with a search over all sets of nodes.

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <set>

#include "common/spec/zone_rule.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr int32_t kClasses[] = {0, 10, 30};

// Nothing parks in these worlds while ranks do not save: a preempted job may still go on, so only
// higher classes can count on its nodes; any other suspension is for good.
bool LeavesForGood(const Job& job) {
  const auto* saving = std::get_if<Saving>(&job.phase);
  return StateOf(job) == JobState::kStopping ||
         (saving != nullptr && saving->cause != StopCause::kPreempted);
}

const Job* FirstInOrder(const ClusterState& state) {
  const Job* first = nullptr;
  for (const JobId id : state.waiting) {
    const Job& job = state.jobs.at(id);
    if (first == nullptr || job.spec->priority > first->spec->priority) {
      first = &job;
    }
  }
  return first;
}

bool ClaimedAgainst(const ClusterState& state, const Job& job, NodeId node) {
  for (const JobId id : state.waiting) {
    const Job& other = state.jobs.at(id);
    const auto& claim = std::get<Queued>(other.phase).claim;
    if (id != job.id && claim && other.spec->priority >= job.spec->priority &&
        std::find(claim->nodes.begin(), claim->nodes.end(), node) != claim->nodes.end()) {
      return true;
    }
  }
  return false;
}

bool AnotherCrosses(const ClusterState& state, const Job& job) {
  for (const auto& [id, other] : state.jobs) {
    const auto* queued = std::get_if<Queued>(&other.phase);
    const Allocation* allocation = AllocationOf(other);
    if (id != job.id &&
        ((allocation != nullptr && state.fabric.Crosses(allocation->nodes)) ||
         (queued != nullptr && queued->claim && other.spec->priority >= job.spec->priority &&
          state.fabric.Crosses(queued->claim->nodes)))) {
      return true;
    }
  }
  return false;
}

size_t CountZones(const Fabric& fabric, const std::vector<NodeId>& nodes) {
  std::set<uint32_t> zones;
  for (const NodeId node : nodes) {
    zones.insert(fabric.ZoneIndexOf(node));
  }
  return zones.size();
}

// Is there any set of nodes for the gang among those that `usable` accepts?
template <typename Usable>
bool Exists(const ClusterState& state, const Job& job, Usable usable) {
  const uint32_t zones_max = AnotherCrosses(state, job) ? 1 : ZonesMax(job.spec->zone);
  for (uint32_t set = 1; set < 1U << state.nodes.size(); ++set) {
    std::vector<NodeId> nodes;
    for (const Node& node : state.nodes) {
      if ((set >> node.id.value() & 1U) != 0 && usable(node)) {
        nodes.push_back(node.id);
      }
    }
    if (nodes.size() == job.spec->nodes && std::popcount(set) == static_cast<int>(nodes.size()) &&
        CountZones(state.fabric, nodes) <= zones_max) {
      return true;
    }
  }
  return false;
}

std::string Describe(const ClusterState& state) {
  std::string text;
  for (const auto& [id, job] : state.jobs) {
    text += FormatJobName(id.value()) + " " + std::to_string(job.spec->nodes) + "x" +
            PriorityName(job.spec->priority) + " " + job.spec->zone + " " +
            std::string(JobStateName(StateOf(job)));
    if (const Allocation* allocation = AllocationOf(job)) {
      for (const NodeId node : allocation->nodes) {
        text += " " + std::to_string(node.value());
      }
    }
    text += "\n";
  }
  return text;
}

// One turn, compared with brute force on the state between the change and the decision.
void TurnAndCompare(World& world, const EventBody& body) {
  ClusterState between = world.state;
  (void)Apply(between, {world.now, body});
  world.Turn({body});
  for (const Event& event : world.last.log) {
    if (const auto* asked = std::get_if<SuspendRequested>(&event.body)) {
      REQUIRE(world.At(asked->job).spec->priority < world.At(asked->beneficiary).spec->priority);
    }
  }
  const Job* first = FirstInOrder(between);
  if (first == nullptr) {
    return;
  }
  const auto idle = [&](const Node& node) {
    return TakesWork(node) && between.uses[node.id.value()].idle() &&
           !ClaimedAgainst(between, *first, node.id);
  };
  const auto takeable = [&](const Node& node) {
    const JobId occupant = between.uses[node.id.value()].first().job;
    return TakesWork(node) && !ClaimedAgainst(between, *first, node.id) &&
           (occupant == JobId() || LeavesForGood(between.jobs.at(occupant)) ||
            between.jobs.at(occupant).spec->priority < first->spec->priority);
  };
  INFO(EventName(body) << ", " << FormatJobName(first->id.value()) << " is first:\n"
                       << Describe(between));
  const bool starts = AllocationOf(world.At(first->id)) != nullptr;
  REQUIRE(starts == Exists(between, *first, idle));
  if (starts) {
    for (const Event& event : world.last.log) {
      const auto* asked = std::get_if<SuspendRequested>(&event.body);
      REQUIRE((asked == nullptr || asked->beneficiary != first->id));  // a free fit was enough
    }
  } else {
    REQUIRE((world.ClaimOf(first->id) != nullptr) == Exists(between, *first, takeable));
  }
}

void RunOne(const Cluster& cluster, const std::vector<AJob>& jobs) {
  World world(cluster);
  world.agents.saves = false;
  for (const AJob& job : jobs) {
    const JobId id(world.state.next_job_id);
    TurnAndCompare(world, JobSubmitted{id, job.Spec(), "ada", ""});
    world.Run();
  }
  for (const auto& [id, job] : world.state.jobs) {
    World next = world;
    TurnAndCompare(next, CancelRequested{id, "ada", ""});
    next.Run();
    next.agents.saves = true;
    next.Run();
    TurnAndCompare(next, NodeHeard{NodeId(0)});
  }
  world.agents.saves = true;
  world.Run();
  for (uint32_t node = 0; node < 2; ++node) {
    World next = world;
    TurnAndCompare(next, DrainRequested{NodeId(node), "tide", "x"});
  }
}

}  // namespace

TEST_CASE("small worlds agree with brute force") {
  const std::vector<Cluster> clusters = {
      Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2),
      Cluster().Zone("A").Leaf(1).Leaf(2).Zone("B").Leaf(1),
      Cluster().Zone("A").Leaf(2).Zone("B").Leaf(1).Zone("C").Leaf(1),
  };
  int worlds = 0;
  for (const Cluster& cluster : clusters) {
    for (const char* zone : {"single", "cross-ok", "cross-ok:2"}) {
      for (int code = 0; code < 9 * 9 * 9; ++code) {
        std::vector<AJob> jobs;
        bool fits = true;
        for (int i = 0, rest = code; i < 3; ++i, rest /= 9) {
          const auto nodes = static_cast<uint32_t>(1 + rest % 3);
          fits = fits && (nodes < 3 || MayLieAcross(zone));
          jobs.push_back(AJob().Nodes(nodes).Priority(kClasses[rest / 3 % 3]).Zone(zone));
        }
        if (fits) {
          RunOne(cluster, jobs);
          ++worlds;
        }
      }
    }
  }
  CHECK(worlds == 3 * (216 + 2 * 729));
}

}  // namespace tide::testing
