#include "scheduler/core/policy/zone_chain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "common/base/prng.h"
#include "common/fabric/comm_plan.h"
#include "common/spec/zone_rule.h"
#include "scheduler/core/policy/placement.h"
#include "scheduler/core/policy/reasons.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

std::string ZoneName(uint32_t zone) {
  return std::string(1, static_cast<char>('A' + zone));
}

// Zones A, B … with so many nodes each, all of them free.
struct Zones {
  explicit Zones(const std::vector<uint32_t>& counts) {
    std::vector<Node> nodes;
    for (uint32_t zone = 0; zone < counts.size(); ++zone) {
      for (uint32_t i = 0; i < counts[zone]; ++i) {
        Node node;
        node.id = NodeId(static_cast<uint32_t>(nodes.size()));
        node.identity.zone = ZoneName(zone);
        node.identity.leaf = ZoneName(zone) + std::to_string(i / 8);
        node.identity.capacity.gpus = 8;
        nodes.push_back(std::move(node));
      }
    }
    fabric = BuildFabric(nodes);
    free.emplace(fabric);
    for (const Node& node : nodes) {
      free->Add(node.id);
    }
  }
  Zones(const Zones&) = delete;
  Zones& operator=(const Zones&) = delete;
  ~Zones() = default;

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(fabric.zones.size()); }
  [[nodiscard]] std::vector<ZonePart> Choose(uint32_t nodes,
                                             const BoundaryUse* boundaries,
                                             uint32_t zones_max = kAnyZones) const {
    const ChainRequest request{0, count(), nodes, zones_max, boundaries};
    const ZoneChain chain = ChooseChain(*free, request);
    CHECK_FALSE(chain.gave_up);
    return chain.parts;
  }

  Fabric fabric;
  std::optional<FreeNodes> free;
};

// Returns the zone of each node of a gang, in rank order.
std::vector<uint32_t> ZonesOf(const std::vector<ZonePart>& parts) {
  std::vector<uint32_t> zones;
  for (const ZonePart& part : parts) {
    zones.insert(zones.end(), part.nodes, part.zone);
  }
  return zones;
}

// Reports whether the cuts lie where the boundaries allow as many pairs.
bool Keeps(const std::vector<ZonePart>& parts, const BoundaryUse& boundaries) {
  const std::vector<uint32_t> pairs = NcclPairsByCut(static_cast<uint32_t>(ZonesOf(parts).size()));
  uint32_t cut = 0;
  for (size_t i = 1; i < parts.size(); ++i) {
    cut += parts[i - 1].nodes;
    const auto* passage = boundaries.Find(parts[i - 1].zone, parts[i].zone);
    if (passage == nullptr || passage->jobs >= passage->jobs_max ||
        passage->pairs + pairs[cut] > passage->pairs_max) {
      return false;
    }
  }
  return true;
}

// Adds up the jobs that pass the boundaries of a chain.
uint32_t CountPassing(const std::vector<ZonePart>& parts, const BoundaryUse& boundaries) {
  uint32_t jobs = 0;
  for (size_t i = 1; i < parts.size(); ++i) {
    jobs += boundaries.Find(parts[i - 1].zone, parts[i].zone)->jobs;
  }
  return jobs;
}

struct ByHand {
  size_t zones = 0;  // 0 = no chain
  uint32_t passing = UINT32_MAX;
};

// Returns the fewest zones of any chain that keeps the limits, and of those chains the fewest jobs
// that pass its boundaries, by trying all orders of all zones.
ByHand SearchByHand(const Zones& zones, uint32_t nodes, const BoundaryUse& boundaries) {
  const std::vector<uint32_t> pairs = NcclPairsByCut(nodes);
  std::vector<uint32_t> order(zones.count());
  std::iota(order.begin(), order.end(), 0U);
  ByHand best;
  do {
    std::vector<uint32_t> most;
    std::vector<uint32_t> pairs_max;
    uint32_t passing = 0;
    for (size_t length = 1; length <= order.size(); ++length) {
      most.push_back(zones.free->CountInZone(order[length - 1]));
      if (length > 1) {
        const auto* passage = boundaries.Find(order[length - 2], order[length - 1]);
        if (passage == nullptr) {
          break;
        }
        passing += passage->jobs;
        pairs_max.push_back(passage->PairsLeft());
        const bool better = best.zones == 0 || length < best.zones ||
                            (length == best.zones && passing < best.passing);
        if (better && !BestSplit(pairs, most, pairs_max).empty()) {
          best = {length, passing};
        }
      }
    }
  } while (std::ranges::next_permutation(order).found);
  return best;
}

}  // namespace

TEST_CASE("a chain passes only zones that are joined", "[zone_chain]") {
  const Zones zones({4, 4, 4, 4});
  const BoundaryUse row({{"A", "B"}, {"B", "C"}, {"C", "D"}}, zones.fabric);
  CHECK(zones.Choose(8, &row) == std::vector<ZonePart>{{0, 4}, {1, 4}});
  CHECK(zones.Choose(16, &row) == std::vector<ZonePart>{{0, 4}, {1, 4}, {2, 4}, {3, 4}});
  const BoundaryUse star({{"A", "B"}, {"A", "C"}, {"D", "A"}}, zones.fabric);
  CHECK(zones.Choose(12, &star) == std::vector<ZonePart>{{1, 4}, {0, 4}, {2, 4}});
  CHECK(zones.Choose(13, &star).empty());  // nobody passes A twice
}

TEST_CASE("a chain has as many zones as the job may lie in", "[zone_chain]") {
  const Zones zones({4, 3, 2});
  CHECK(zones.Choose(9, nullptr, 2).empty());
  CHECK(zones.Choose(7, nullptr, 2) == std::vector<ZonePart>{{0, 4}, {1, 3}});
  const BoundaryUse all({{"A", "B"}, {"B", "C"}, {"A", "C"}}, zones.fabric);
  CHECK(zones.Choose(9, &all, 2).empty());
  CHECK(zones.Choose(9, &all, 3).size() == 3);
}

TEST_CASE("boundaries that nobody passes come first, and full ones never", "[zone_chain]") {
  const Zones zones({4, 4, 4});
  BoundaryUse use({{"A", "B", 2}, {"A", "C", 1}, {"B", "C", 1}}, zones.fabric);
  use.Add({NodeId(0), NodeId(4)});  // passes A and B
  CHECK(zones.Choose(8, &use) == std::vector<ZonePart>{{0, 4}, {2, 4}});
  use.Add({NodeId(8), NodeId(0)});  // passes A and C, which is full then
  CHECK(zones.Choose(8, &use) == std::vector<ZonePart>{{1, 4}, {2, 4}});
  use.Add({NodeId(4), NodeId(8)});
  CHECK(zones.Choose(8, &use) == std::vector<ZonePart>{{0, 4}, {1, 4}});
  CHECK(zones.Choose(12, &use).empty());
  use.Add({NodeId(4), NodeId(0)});
  CHECK(zones.Choose(8, &use).empty());
}

TEST_CASE("limits of pairs choose where a gang is cut", "[zone_chain]") {
  const Zones zones({64, 64});
  const auto pairs_by_cut = NcclPairsByCut(100);
  const uint32_t fewest =
      *std::min_element(pairs_by_cut.begin() + 36, pairs_by_cut.begin() + 65);  // 36 … 64 in A
  const BoundaryUse enough({{"A", "B", kNoLimit, fewest}}, zones.fabric);
  const std::vector<ZonePart> parts = zones.Choose(100, &enough);
  REQUIRE(parts.size() == 2);
  CHECK(pairs_by_cut[parts[0].nodes] == fewest);
  const BoundaryUse too_few({{"A", "B", kNoLimit, fewest - 1}}, zones.fabric);
  CHECK(zones.Choose(100, &too_few).empty());
}

TEST_CASE("chains of random fabrics are as short as can be, and keep the limits", "[zone_chain]") {
  Prng prng(11);
  int placed = 0;
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<uint32_t> counts;
    for (uint64_t zone = 3 + prng.Below(4); zone > 0; --zone) {
      counts.push_back(static_cast<uint32_t>(1 + prng.Below(12)));
    }
    const Zones zones(counts);
    std::vector<Boundary> boundaries;
    for (uint32_t a = 0; a < zones.count(); ++a) {
      for (uint32_t b = a + 1; b < zones.count(); ++b) {
        if (prng.Below(3) > 0) {
          boundaries.push_back({ZoneName(a),
                                ZoneName(b),
                                static_cast<uint32_t>(1 + prng.Below(2)),
                                static_cast<uint32_t>(1 + prng.Below(8))});
        }
      }
    }
    BoundaryUse use(boundaries, zones.fabric);
    for (uint64_t job = prng.Below(4); job > 0; --job) {
      use.Add({zones.fabric.leaves[prng.Below(zones.fabric.leaves.size())].nodes.front(),
               zones.fabric.leaves[prng.Below(zones.fabric.leaves.size())].nodes.front()});
    }
    const uint32_t largest = *std::ranges::max_element(counts);
    const auto nodes = static_cast<uint32_t>(largest + 1 + prng.Below(20));
    const std::vector<ZonePart> parts = zones.Choose(nodes, &use);
    const ByHand best = SearchByHand(zones, nodes, use);
    REQUIRE(parts.size() == best.zones);
    if (parts.empty()) {
      ++refused;
      continue;
    }
    ++placed;
    REQUIRE(Keeps(parts, use));
    REQUIRE(CountPassing(parts, use) == best.passing);
    REQUIRE(ZonesOf(parts).size() == nodes);
    for (const ZonePart& part : parts) {
      REQUIRE((part.nodes > 0 && part.nodes <= zones.free->CountInZone(part.zone)));
    }
  }
  CHECK(placed > 100);
  CHECK(refused > 100);
}

TEST_CASE("a chain and its reverse are cut by different pairs", "[zone_chain]") {
  // Pairs of five nodes by cut: 3, 3, 4, 3.
  const Zones zones({3, 2});
  const BoundaryUse three({{"A", "B", kNoLimit, 3}}, zones.fabric);
  CHECK(zones.Choose(5, &three) == std::vector<ZonePart>{{1, 2}, {0, 3}});
}

TEST_CASE("the only chain whose boundaries are wide enough is found", "[zone_chain]") {
  const Zones zones({10, 10, 10, 10, 10, 10});
  std::vector<Boundary> boundaries;
  for (uint32_t a = 0; a < zones.count(); ++a) {
    for (uint32_t b = a + 1; b < zones.count(); ++b) {
      const bool wide = a >= 3 && b == a + 1;  // D – E, E – F
      boundaries.push_back({ZoneName(a), ZoneName(b), kNoLimit, wide ? 30U : 1U});
    }
  }
  const BoundaryUse use(boundaries, zones.fabric);
  CHECK(zones.Choose(30, &use) == std::vector<ZonePart>{{3, 10}, {4, 10}, {5, 10}});
}

TEST_CASE("sixty-four zones that are all joined end the search", "[zone_chain]") {
  std::vector<Node> nodes;
  std::vector<Boundary> boundaries;
  for (uint32_t zone = 0; zone < 64; ++zone) {
    Node node;
    node.id = NodeId(zone);
    node.identity.zone = "z" + std::to_string(zone);
    nodes.push_back(node);
    for (uint32_t other = 0; other < zone; ++other) {
      boundaries.push_back({node.identity.zone, "z" + std::to_string(other), kNoLimit, 2});
    }
  }
  const Fabric fabric = BuildFabric(nodes);
  FreeNodes free(fabric);
  for (const Node& node : nodes) {
    free.Add(node.id);
  }
  const BoundaryUse use(boundaries, fabric);
  const ZoneChain chain = ChooseChain(free, {0, 64, 60, kAnyZones, &use});
  CHECK(chain.parts.empty());
  CHECK(chain.gave_up);
}

TEST_CASE("groups with zones of one name share their boundaries", "[zone_chain]") {
  Cluster cluster;
  for (const char* zone : {"A", "B"}) {
    cluster.Zone(zone).Group("default").Leaf(2).Group("h100").Leaf(5);
  }
  World world(cluster);
  world.policy.cross_zone_jobs_max = 2;
  world.policy.boundaries = {{"A", "B", 1}};
  const JobId first = world.Submit(AJob().Nodes(3).Zone("cross-ok"));
  REQUIRE(world.Is(first) == JobState::kRunning);
  const JobId second = world.Submit(AJob().Nodes(6).Zone("cross-ok").Group("h100"));
  CHECK(world.Why(second).front() == "placement.cross_zone_busy");
}

TEST_CASE("16,384 GPUs cross three boundaries of the tapered fabric on one pair each",
          "[zone_chain]") {
  const Zones zones({512, 512, 512, 512, 512, 512});
  std::vector<Boundary> boundaries;
  for (uint32_t a = 0; a < zones.count(); ++a) {
    for (uint32_t b = a + 1; b < zones.count(); ++b) {
      boundaries.push_back({ZoneName(a), ZoneName(b), kNoLimit, 14});  // as configs/tapered.yaml
    }
  }
  const auto use = std::make_shared<BoundaryUse>(boundaries, zones.fabric);
  const std::vector<ZonePart> parts = zones.Choose(2048, use.get());
  REQUIRE(parts.size() == 4);
  CHECK(Keeps(parts, *use));
  CHECK(CountCrossZonePairs(ZonesOf(parts)).plan == 3);
  PlacementRequest request;
  request.nodes = 2048;
  request.group = "default";
  request.zone = kCrossOk;
  request.boundaries = use;
  const std::vector<NodeId> nodes = Place(*zones.free, request).nodes;
  REQUIRE(nodes.size() == 2048);
  CHECK(use->Allows(nodes));
  request.zone = "cross-ok:3";
  CHECK(Place(*zones.free, request).nodes.empty());
  CHECK_FALSE(Place(*zones.free, request).cross_zone_busy);
}

TEST_CASE("a job that would pass a full boundary waits for the one that does", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(5).Zone("B").Leaf(5).Zone("C").Leaf(2));
  world.policy.cross_zone_jobs_max = 5;
  world.policy.boundaries = {{"A", "B", 1}};
  const JobId in_a = world.Submit(AJob().Nodes(2).Zone("A"));
  const JobId in_b = world.Submit(AJob().Nodes(2).Zone("B"));
  const JobId first = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  REQUIRE(world.state.crossing.contains(first));
  world.Finish(in_a);
  world.Finish(in_b);
  const JobId second = world.Submit(AJob().Nodes(6).Zone("cross-ok"));  // as many are idle
  CHECK(world.Is(second) == JobState::kQueued);
  CHECK(world.Why(second).front() == "placement.cross_zone_busy");
  const Reason reason = world.ReasonsOf(second).front();
  CHECK(reason.other == first);
  world.Finish(first);
  CHECK(world.Is(second) == JobState::kRunning);
}

TEST_CASE("nobody is blamed where zones do not meet", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2).Zone("C").Leaf(2));
  world.policy.boundaries = {{"A", "B"}, {"B", "C"}};
  (void)world.Submit(AJob().Nodes(2).Zone("B").Priority(30));
  const JobId job = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  REQUIRE(world.Is(job) == JobState::kQueued);
  CHECK(world.Why(job).front() == "placement.zone_capacity");
  const Reason reason = world.ReasonsOf(job).front();
  CHECK(DescribeReason(world.At(job), reason).message ==
        "needs 4 nodes free in zones that are joined; most free now: 2, short 2");
}

TEST_CASE("the job on the full boundary is named, not another that crosses", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2).Zone("C").Leaf(5).Zone("D").Leaf(5));
  world.policy.cross_zone_jobs_max = 5;
  world.policy.boundaries = {{"A", "B"}, {"C", "D", 1}};
  const JobId in_c = world.Submit(AJob().Nodes(3).Zone("C"));
  const JobId in_d = world.Submit(AJob().Nodes(3).Zone("D"));
  const JobId other = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  const JobId full = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  REQUIRE(world.state.crossing == std::set<JobId>{other, full});
  world.Finish(in_c);
  world.Finish(in_d);
  const JobId job = world.Submit(AJob().Nodes(6).Zone("cross-ok"));
  REQUIRE(world.Is(job) == JobState::kQueued);
  const Reason reason = world.ReasonsOf(job).front();
  CHECK(reason.code == ReasonCode::kCrossZoneBusy);
  const bool full_in_c = world.state.fabric.ZoneOf(NodeId(world.NodesOf(full)[0])).name >= "C";
  CHECK(reason.other == (full_in_c ? full : other));
}

TEST_CASE("a waiting gang that the boundaries can never pass is told so", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2).Zone("C").Leaf(2));
  const JobId first = world.Submit(AJob().Nodes(6).Zone("cross-ok"));
  const JobId job = world.Submit(AJob().Nodes(6).Zone("cross-ok"));
  REQUIRE(world.Is(job) == JobState::kQueued);
  world.policy.boundaries = {{"A", "B"}};  // the file has changed
  world.Turn({});
  CHECK(std::ranges::count(world.Why(job), "size.never") == 1);
  CHECK(world.Is(first) == JobState::kRunning);  // what crosses stays
}

TEST_CASE("a higher class takes a boundary from a claim of a lower one", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2));
  world.policy.boundaries = {{"A", "B", 1}};
  const JobId low = world.Submit(AJob().Nodes(2).Zone("A").Priority(0));
  world.agents.saves = false;  // it stays for its notice
  world.agents.stops = false;
  const JobId normal = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  REQUIRE(world.ClaimOf(normal) != nullptr);
  const JobId high = world.Submit(AJob().Nodes(4).Zone("cross-ok").Priority(30));
  CHECK(world.ClaimOf(high) != nullptr);
  CHECK(world.ClaimOf(normal) == nullptr);
  world.agents.saves = true;
  world.agents.stops = true;
  world.Run();
  world.Pass(Duration::Minutes(10));
  CHECK(world.Is(high) == JobState::kRunning);
  CHECK(world.Is(low) == JobState::kQueued);
}

TEST_CASE("a gang after a fault goes where the limits let it", "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(2).Zone("B").Leaf(2).Zone("C").Leaf(2));
  world.policy.boundaries = {{"A", "B"}};
  const JobId gang = world.Submit(AJob().Nodes(4).Zone("cross-ok"));
  REQUIRE(world.NodesOf(gang) == std::vector<uint32_t>{0, 1, 2, 3});
  world.policy.faults.return_after = Duration();
  world.Xid(3, 79);  // only C has idle nodes, which no boundary leads to
  world.Pass(Duration::Minutes(30));
  CHECK(world.Is(gang) == JobState::kQueued);
  world.policy.boundaries = {{"A", "B"}, {"B", "C"}};
  world.Turn({});
  world.Run();
  REQUIRE(world.Is(gang) == JobState::kRunning);
  BoundaryUse unused(world.policy.boundaries, world.state.fabric);
  CHECK(unused.Allows(AllocationOf(world.At(gang))->nodes));
}

TEST_CASE("what the boundaries can never pass is refused, with a size that they can",
          "[zone_chain]") {
  World world(Cluster().Zone("A").Leaf(4).Zone("B").Leaf(4).Zone("C").Leaf(4));
  world.policy.boundaries = {{"A", "B"}};
  const auto submit = [&](const AJob& job) {
    const Event event{world.now,
                      JobSubmitted{JobId(world.state.next_job_id), job.Spec(), "ada", ""}};
    return Step(world.state, {&event, 1}, world.policy, world.now).results.front();
  };
  CHECK(submit(AJob().Nodes(9).Zone("cross-ok")).error().message ==
        "resources.nodes: 9 nodes of group default can never be had across the boundaries between "
        "zones (fabric.boundaries of the cluster file); ask for 8");
  CHECK(world.state.jobs.empty());
  CHECK(submit(AJob().Nodes(8).Zone("cross-ok")));
  CHECK(submit(AJob().Nodes(9).Zone("cross-ok:2")).error().code == ErrorCode::kNeverFits);
}

}  // namespace tide::testing
