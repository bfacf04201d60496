// Cases small enough to check on paper: nodes of 8 GPUs, times in seconds.

#include "sim/reference/policies.h"

#include <catch2/catch.hpp>

#include "sim/results.h"
#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

using testing::EndsOf;
using testing::Line;
using testing::TraceOf;
using Ends = std::vector<int64_t>;

RunRecord Run(const std::string& policy,
              const std::vector<Line>& lines,
              uint32_t nodes,
              PreemptCost cost_s = std::nullopt) {
  const Trace trace = TraceOf(lines);
  const auto made = MakeReference(policy, cost_s);
  RunRecord run = RunReference(trace, nodes, 8, *made);
  (void)Summarize(run);  // aborts when the ledger does not add up
  return run;
}

}  // namespace

TEST_CASE("fifo: the head blocks what would fit behind it") {
  const std::vector<Line> lines = {{0, 100, 8}, {1, 50, 16}, {2, 10, 8}};
  CHECK(EndsOf(Run("fifo", lines, 2)) == Ends{100, 150, 160});
}

TEST_CASE("sjf: the shortest waiting job goes first") {
  const std::vector<Line> lines = {{0, 100, 8}, {1, 50, 8}, {2, 10, 8}};
  CHECK(EndsOf(Run("sjf", lines, 1)) == Ends{100, 160, 110});
}

TEST_CASE("srtf: a shorter job preempts, the longer one pays for it, ends are seen a second late") {
  // At 10 the first has 90 s left; the second needs 20 and ends at 31. The first then goes on with
  // 90 + 30 s and ends at 31 + 120 + 1.
  const RunRecord run = Run("srtf", {{0, 100, 8}, {10, 20, 8}}, 1);
  CHECK(EndsOf(run) == Ends{152, 31});
  CHECK(run.jobs[0].preemptions == 1);
  CHECK(run.jobs[0].wait_ms == 21'000);
}

TEST_CASE("srtf: the cost of a suspension can be set") {
  CHECK(EndsOf(Run("srtf", {{0, 100, 8}, {10, 20, 8}}, 1, 60)) == Ends{182, 31});
}

TEST_CASE("srtf: a running job is left alone once less is left of it than of the waiting one") {
  CHECK(EndsOf(Run("srtf", {{0, 100, 8}, {60, 50, 8}}, 1)) == Ends{101, 152});
}

TEST_CASE("las: who has used little goes before who has used much") {
  // 8 GPUs for 2,280 s are 18,240 GPU-seconds: at the minute after 2,250 s the first is in the low
  // queue. The second, submitted at 2,000, starts at 2,280 and ends after 100 s, seen at 2,381.
  const RunRecord run = Run("las", {{0, 10'000, 8}, {2'000, 100, 8}}, 1, 60);
  CHECK(run.jobs[0].preemptions == 1);
  CHECK(EndsOf(run)[1] == 2'381);
  // The first goes on at the next minute, 2,400, with 7,720 s left and 60 to pay.
  CHECK(EndsOf(run)[0] == 2'400 + 7'720 + 60 + 1);
}

TEST_CASE("easy: a later job fills a gap if it ends before the head can start") {
  // One node is free until 100, when the head takes both.
  CHECK(EndsOf(Run("backfill-easy", {{0, 100, 8}, {1, 50, 16}, {2, 90, 8}}, 2)) ==
        Ends{100, 150, 92});
  CHECK(EndsOf(Run("backfill-easy", {{0, 100, 8}, {1, 50, 16}, {2, 99, 8}}, 2)) ==
        Ends{100, 150, 249});
}

TEST_CASE("easy: a later job may run on when the head does not need its GPUs") {
  // The head wants two of three nodes at 100; the third is for the long one.
  const std::vector<Line> lines = {{0, 100, 16}, {1, 50, 16}, {2, 1000, 8}, {3, 1000, 8}};
  CHECK(EndsOf(Run("backfill-easy", lines, 3)) == Ends{100, 150, 1002, 1150});
}

TEST_CASE("references: the ledger says what a suspension cost") {
  const RunRecord run = Run("srtf", {{0, 100, 8}, {10, 20, 8}}, 1, 60);
  const Results results = Summarize(run);
  CHECK(results.ledger[GpuUse::kUseful] == 120 * 8 * 1000);
  CHECK(results.ledger[GpuUse::kRestart] == (60 + 2) * 8 * 1000);
  CHECK(results.ledger[GpuUse::kIdleNoDemand] == 0);
}

}  // namespace tide::sim
