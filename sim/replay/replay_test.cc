// The real scheduler core under virtual time, in worlds small enough to check on paper.

#include "sim/replay/replay.h"

#include <catch2/catch.hpp>

#include "sim/results.h"
#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

using testing::EndsOf;
using testing::Line;
using testing::TraceOf;
using Ends = std::vector<int64_t>;

NodeFault Fault(int64_t at_s, int64_t until_s, uint32_t node, FaultClass what) {
  return {at_s * 1000, until_s * 1000, node, what};
}

RunRecord Replayed(const std::vector<Line>& lines,
                   uint32_t nodes,
                   const std::vector<NodeFault>& faults = {}) {
  ReplayOptions options;
  options.faults.trace = faults;
  options.costs.checkpoint_every_ms = faults.empty() ? 0 : 300'000;
  const auto run = ReplayTrace(TraceOf(lines), FlatCluster(nodes, 8), options);
  if (!run) {
    FAIL(run.error().message);
  }
  const Results results = Summarize(*run);  // aborts when the ledger does not add up
  const EttrLoss& lost = results.ettr_lost;
  CHECK(results.ettr + lost.save + lost.restart + lost.recomputed + lost.work + lost.broken +
            lost.waiting ==
        Approx(1).epsilon(1e-12));
  return *run;
}

}  // namespace

TEST_CASE("replay: jobs that nothing disturbs take their run time") {
  const RunRecord run = Replayed({{0, 100, 8}, {5, 50, 16}}, 3);
  CHECK(EndsOf(run) == Ends{100, 55});
  CHECK(run.jobs[1].wait_ms == 0);
  CHECK(Summarize(run).useful == 1);
}

TEST_CASE("replay: a higher class takes the node, its victim pays save and restart, once") {
  // Asked at 200, saved at 220; the other runs to 320; 40 s of restart, 800 s of work.
  const RunRecord run = Replayed({{0, 1000, 8, "low"}, {200, 100, 8, "high"}}, 1);
  CHECK(EndsOf(run) == Ends{1160, 320});
  CHECK(run.jobs[0].preemptions == 1);
  CHECK(run.jobs[0].held[GpuUse::kSave] == 20'000 * 8);
  CHECK(run.jobs[0].held[GpuUse::kRestart] == 40'000 * 8);
  CHECK(run.jobs[0].held[GpuUse::kLostToPreemption] == 0);
}

TEST_CASE("replay: a job that never saves is stopped when its notice is over, and begins anew") {
  Trace trace = TraceOf({{0, 1000, 8, "low"}, {200, 100, 8, "high"}});
  trace.jobs[0].saves = false;
  const auto run = ReplayTrace(trace, FlatCluster(1, 8), {});
  REQUIRE(run.has_value());
  const JobRecord& job = run->jobs[0];
  const int64_t notice_ms = JobSpec().suspend_notice.millis();
  CHECK(job.held[GpuUse::kLostToPreemption] == (200'000 + notice_ms) * 8);
  CHECK(job.held[GpuUse::kSave] == 0);
  CHECK(job.held[GpuUse::kUseful] == 1'000'000 * 8);
}

TEST_CASE("replay: after a GPU fault the work since the last checkpoint is done again") {
  // The fault at 400 is seen at 401; the node is tried at 461 and found broken at 466. It is
  // rebooted sound at 500, so it is tried again at 526 and validated for 480 s; then 40 s of
  // restart and the 700 s that the checkpoint at 300 does not hold.
  const RunRecord run = Replayed({{0, 1000, 16}}, 2, {Fault(400, 500, 1, FaultClass::kGpu)});
  CHECK(run.jobs[0].end_ms == (526 + 480 + 40 + 700) * 1000);
  CHECK(run.jobs[0].held[GpuUse::kLostToFaults] == (100 + 1) * 16 * 1000);
  CHECK(run.jobs[0].fault_wait_ms == (526 + 480 - 401) * 1000);
  CHECK(EttrOf(run.jobs[0]) == Approx(1000.0 / (1000 + 101 + 40 + 605)));
  const EttrLoss lost = Summarize(run).ettr_lost;
  CHECK(lost.work * 1746 == Approx(100));
  CHECK(lost.broken * 1746 == Approx(1));
  CHECK(lost.waiting * 1746 == Approx(605).epsilon(1e-4));
}

TEST_CASE("replay: with a spare node the job goes on there") {
  for (uint32_t node = 0; node < 3; ++node) {
    const RunRecord run =
        Replayed({{0, 1000, 16}}, 3, {Fault(400, 90'000, node, FaultClass::kGpu)});
    const int64_t end = EndsOf(run).front();
    CHECK((end == 1000 || end == 401 + 40 + 700));  // the spare broke, or it helped
  }
}

TEST_CASE("replay: a dead node's job goes on once nothing can run there any more") {
  const RunRecord run = Replayed({{0, 1000, 16}}, 2, {Fault(400, 450, 0, FaultClass::kNode)});
  CHECK(EndsOf(run) == Ends{450 + 40 + 700});  // it came back, and held nothing
  CHECK(run.jobs[0].faults == 1);
}

TEST_CASE("replay: a flash cut ends the ranks, not the node") {
  const RunRecord run =
      Replayed({{0, 1000, 8}},
               2,
               {Fault(400, 405, 0, FaultClass::kFlash), Fault(400, 405, 1, FaultClass::kFlash)});
  CHECK(run.jobs[0].faults >= 1);
  CHECK(run.jobs[0].end_ms > 1000'000);
}

TEST_CASE("replay: random worlds end, add up, and are the same when repeated") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    std::vector<Line> lines;
    int64_t at = 0;
    for (int i = 0; i < 60; ++i) {
      at += static_cast<int64_t>(prng.Below(400));
      static constexpr uint32_t kSizes[] = {1, 2, 4, 8, 8, 16, 32};
      static constexpr const char* kKinds[] = {"low", "normal", "high"};
      lines.push_back({at,
                       1 + static_cast<int64_t>(prng.Below(4000)),
                       kSizes[prng.Below(7)],
                       kKinds[prng.Below(3)]});
    }
    ReplayOptions options;
    options.seed = seed;
    options.costs.checkpoint_every_ms = 300'000;
    options.costs.checkpoint_ms = 1'000;
    options.faults.rates = {{FaultClass::kGpu, 4000, 3600, 1},
                            {FaultClass::kNode, 2000, 3600, 1},
                            {FaultClass::kFlash, 2000, 10, 2},
                            {FaultClass::kLink, 1000, 3600, 1}};
    const Trace trace = TraceOf(lines);
    const ClusterShape shape = FlatCluster(6, 8);
    const auto first = ReplayTrace(trace, shape, options);
    INFO("seed " << seed << ": " << (first ? "" : first.error().message));
    REQUIRE(first.has_value());
    const Results results = Summarize(*first);
    CHECK(results.ledger[GpuUse::kUseful] > 0);
    const auto second = ReplayTrace(trace, shape, options);
    CHECK(ToJobsCsv(trace, *first) == ToJobsCsv(trace, *second));
    CHECK(results.ledger.gpu_ms == Summarize(*second).ledger.gpu_ms);
  }
}

TEST_CASE("replay: jobs across zones are counted, and the pairs of their plan") {
  ClusterShape shape = FlatCluster(4, 8);
  shape.zones = 2;
  for (const uint32_t node : {2U, 3U}) {
    shape.nodes[node].zone = "B";
    shape.nodes[node].leaf = "b-l1";
    shape.zone_of[node] = 1;
  }
  const auto run = ReplayTrace(TraceOf({{0, 100, 24}, {1, 100, 16}, {2, 100, 24}}), shape, {});
  REQUIRE(run.has_value());
  CHECK(run->cross_zone.jobs_total == 2);
  CHECK(run->cross_zone.jobs_max == 1);
  CHECK(run->cross_zone.pairs_max == 1);
}

TEST_CASE("replay: a job that the scheduler refuses names its line") {
  const auto run = ReplayTrace(TraceOf({{0, 1, 8}, {1, 1, 64}}), FlatCluster(2, 8), {});
  REQUIRE_FALSE(run.has_value());
  CHECK(run.error().message.starts_with("hand.csv:3:1: the scheduler refuses job 1: "));
}

TEST_CASE("replay: whatever breaks, nodes come back or are named, and never too many leave") {
  constexpr uint32_t kNodes = 200;
  constexpr uint64_t kMost = 4;  // two in a hundred
  std::vector<NodeFault> faults;
  SECTION("a driver roll-out breaks every node within an hour") {
    for (uint32_t node = 0; node < kNodes; ++node) {
      faults.push_back(Fault(1000 + 18 * node, 40'000, node, FaultClass::kGpu));
    }
  }
  SECTION("a node breaks four times in a month, others twice") {
    for (int64_t round = 0; round < 4; ++round) {
      for (uint32_t node = 0; node < (round < 2 ? 3 : 1); ++node) {
        const int64_t at = 1000 + round * 100'000 + node * 2'000;
        faults.push_back(Fault(at, at + 20'000, node, FaultClass::kGpu));
      }
    }
    std::ranges::sort(faults, {}, &NodeFault::at_ms);
  }
  const RunRecord run = Replayed({{0, 600'000, 8 * (kNodes - 8)}}, kNodes, faults);
  const FaultRecord& record = run.faults;
  CHECK(record.faults == faults.size());
  CHECK(record.outages > 0);
  CHECK(record.wrong == 0);
  CHECK(record.by_person == 0);
  CHECK(record.by_itself + record.named + record.still_out == record.outages);
  CHECK(record.most_at_once <= kMost);
}

}  // namespace tide::sim
