#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "agent/fabric/cluster_testing.h"
#include "agent/fabric/report.h"
#include "common/base/time.h"

namespace tide::allreduce {
namespace {

Work SmallWork(uint32_t ranks, uint64_t elements, uint64_t chunk) {
  Work work;
  work.ranks = ranks;
  work.elements = elements;
  work.chunk = chunk;
  work.iterations = 3;
  work.check = true;
  return work;
}

TEST_CASE("allreduce: every element is right, for every number of nodes and ranks") {
  const uint32_t nodes = GENERATE(1U, 2U, 3U, 4U, 5U, 7U);
  const uint32_t ranks = GENERATE(1U, 2U, 3U, 4U);
  const uint64_t elements = GENERATE(1U, 2U, 101U, 1009U, 4001U);
  CAPTURE(nodes, ranks, elements);
  TestCluster cluster(SmallWork(ranks, elements, 500), std::vector<uint32_t>(nodes));
  for (const auto& report : cluster.Run()) {
    REQUIRE(report);
    REQUIRE(report->wrong_elements == 0);
    REQUIRE(report->nanos.size() == 3);
  }
}

TEST_CASE("allreduce: chunks of several blocks") {
  TestCluster cluster(SmallWork(2, 1'000'003, 300'001), {0, 0, 0});
  for (const auto& report : cluster.Run()) {
    REQUIRE(report);
    CHECK(report->wrong_elements == 0);
  }
}

TEST_CASE("allreduce: the plan's edges carry half of the bytes each way, and no others any") {
  const std::vector<uint32_t> zones = GENERATE(std::vector<uint32_t>{0, 0},
                                               std::vector<uint32_t>{0, 0, 1, 1},
                                               std::vector<uint32_t>{0, 0, 0, 1, 1, 1, 1},
                                               std::vector<uint32_t>{0, 1, 2, 0, 1, 2});
  constexpr uint64_t kElements = 4000;
  TestCluster cluster(SmallWork(1, kElements, 500), zones);
  using Way = std::tuple<uint32_t, uint32_t, uint32_t>;  // from, to, tree
  std::set<Way> used;
  uint32_t ends_abroad = 0;
  for (const auto& report : cluster.Run()) {
    REQUIRE(report);
    for (const EdgeReport& edge : report->edges) {
      CHECK(edge.sent.bytes == 3 * kElements / 2 * sizeof(float));
      CHECK(used.emplace(edge.edge.self, edge.edge.peer, edge.edge.tree).second);
    }
    ends_abroad += report->cross_zone_pairs;
  }
  const CommPlan plan = MakeCommPlan(zones);
  std::set<Way> planned;
  for (uint32_t tree = 0; tree < 2; ++tree) {
    for (uint32_t node = 0; node < zones.size(); ++node) {
      if (const int32_t parent = plan.parents[tree][node]; parent != kNoParent) {
        planned.emplace(node, static_cast<uint32_t>(parent), tree);
        planned.emplace(static_cast<uint32_t>(parent), node, tree);
      }
    }
  }
  CHECK(used == planned);
  CHECK(ends_abroad == 2 * CountCrossZonePairs(zones).plan);
}

TEST_CASE("allreduce: one bit turned over in one node is found by every rank of all") {
  TestCluster cluster(SmallWork(2, 4001, 500), {0, 0, 0});
  const auto reports =
      cluster.Run([](uint32_t node, Work& work, NodeOptions&) { work.plant_flip = node == 1; });
  for (const auto& report : reports) {
    REQUIRE(report);
    CHECK(report->wrong_elements == 3 * 2);  // iterations × ranks
    REQUIRE(report->errors.size() == 6);
    const WrongElements& wrong = report->errors[0].wrong;
    CHECK(wrong.count == 1);
    CHECK(wrong.index == 2001);
    CHECK(wrong.found != wrong.expected);
    CHECK(wrong.expected == ExpectedSum({0, 0, 6}, 2001));
  }
}

TEST_CASE("allreduce: a slow edge shows in the figures of its sender") {
  constexpr int64_t kDelay = 2'000'000;
  TestCluster cluster(SmallWork(1, 4000, 500), {0, 0});
  const auto reports = cluster.Run([](uint32_t node, Work&, NodeOptions& options) {
    options.plant_slow_ns = node == 1 ? kDelay : 0;
  });
  REQUIRE(reports[0]);
  REQUIRE(reports[1]);
  const LinkUse& slow = reports[1]->edges[0].sent;
  CHECK(slow.frames >= 24);
  CHECK(slow.nanos >= static_cast<int64_t>(slow.frames) * kDelay);
  CHECK(reports[1]->wrong_elements == 0);
}

void CheckThatAllEnd(TestCluster& cluster, uint32_t bad, Plant::Kind kind) {
  const int64_t start = MonotonicNanos();
  const auto reports = cluster.Run([&](uint32_t node, Work&, NodeOptions& options) {
    options.timeout_ns = 500'000'000;
    options.plant = {node == bad ? kind : Plant::Kind::kNone, 12};
  });
  for (uint32_t node = 0; node < reports.size(); ++node) {
    CAPTURE(node, bad);
    REQUIRE_FALSE(reports[node]);
    if (node != bad) {
      CHECK_THAT(reports[node].error().message, Catch::Contains(" → node "));
    }
  }
  CHECK(MonotonicNanos() - start < 10'000'000'000);  // many timeouts: machines may be busy
}

TEST_CASE("allreduce: when a node dies in the middle, all others end and name an edge") {
  const uint32_t bad = GENERATE(0U, 1U, 2U, 3U, 4U);
  TestCluster cluster(SmallWork(2, 4001, 500), {0, 0, 0, 1, 1});
  CheckThatAllEnd(cluster, bad, Plant::Kind::kDie);
}

TEST_CASE("allreduce: when a node falls silent, all others end and name an edge") {
  const uint32_t bad = GENERATE(0U, 2U);
  TestCluster cluster(SmallWork(1, 4001, 500), {0, 0, 0});
  CheckThatAllEnd(cluster, bad, Plant::Kind::kHang);
}

TEST_CASE("allreduce: a rank that does not take part is named") {
  Work work = SmallWork(2, 100, 50);
  const auto region = Region::Make(work);
  REQUIRE(region);
  const std::jthread other([&] { RunRank(**region, 0); });
  NodeOptions options;
  options.nodes = {"127.0.0.1:0"};
  options.zones = {0};
  options.timeout_ns = 100'000'000;
  auto listener = Listen(options.nodes[0]);
  REQUIRE(listener);
  const auto report = RunNode(options, **region, std::move(*listener));
  REQUIRE_FALSE(report);
  CHECK(report.error().message == "rank 1 of node 0 does not answer");
}

TEST_CASE("allreduce: work that cannot be is refused") {
  CHECK_FALSE(Region::Make(SmallWork(0, 10, 10)));
  CHECK_FALSE(Region::Make(SmallWork(65, 10, 10)));
  CHECK_FALSE(Region::Make(SmallWork(1, 0, 10)));
  CHECK_FALSE(Region::Make(SmallWork(1, 10, 1)));
}

TEST_CASE("allreduce: rates and the line that is printed") {
  Work work = SmallWork(4, 250, 10);
  work.nodes = 2;
  NodeReport report;
  report.nanos = {4000, 1000, 2000};
  const Rates rates = RatesOf(report, work);
  CHECK(rates.median_s == Approx(2e-6));
  CHECK(rates.min_s == Approx(1e-6));
  CHECK(rates.algorithm_gbps == Approx(0.5));
  CHECK(rates.bus_gbps == Approx(0.875));
  report.errors.push_back({1, 2, {3, 4, 5, 6}});
  CHECK_THAT(ReportJson(report, work),
             Catch::Contains(R"({"iteration":1,"rank":2,"count":3,"index":4,"expected":5.0)"));
  CHECK_THAT(ReportText(report, work), Catch::Contains("first [4] is 6 instead of 5"));
}

}  // namespace
}  // namespace tide::allreduce
