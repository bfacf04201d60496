// The agreement in random worlds: never two stop steps, never a rank that waits for ever, and
// without faults a stop within two steps and 50 ms.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "agent/core/testing/agreement_world.h"

namespace tide::agent {
namespace {

constexpr int64_t kParkSlackNs = 50'000'000;

uint64_t TrialCount() {
  const char* given = std::getenv("TIDE_AGREEMENT_TRIALS");  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? 10'000 : std::strtoull(given, nullptr, 10);
}

struct Tally {
  uint64_t together = 0;
  uint64_t none = 0;
  uint64_t split = 0;
  uint64_t bounded = 0;
  uint64_t saved = 0;            // by every rank, before the suspension
  int64_t worst_ns = INT64_MIN;  // beyond two steps
  double steps = 0;
};

void CheckEnd(const TrialPlan& plan, const TrialEnd& end, Tally& tally) {
  REQUIRE_FALSE(end.timed_out);
  REQUIRE_FALSE(end.two_steps);
  REQUIRE_FALSE(end.two_save_steps);
  REQUIRE(end.waiting == 0);
  const bool all = end.fired >= end.living;
  tally.saved += end.saved == end.ranks ? 1 : 0;
  if (all) {
    ++tally.together;
  } else if (end.fired == 0) {
    ++tally.none;
  } else {
    // It takes a silence longer than anyone's patience, or a rank that died after the commit. The
    // others' checkpoint stays incomplete then: none of them leaves, up to the order's deadline.
    REQUIRE((end.lapsed || end.living < end.ranks));
    ++tally.split;
  }
  if (plan.faults) {
    return;
  }
  REQUIRE(all);
  REQUIRE(end.phase == Agreement::Phase::kCommitted);
  REQUIRE(end.step == std::max(end.agreed_step, plan.first_step + 1));
  if (plan.lockstep) {
    const int64_t took_ns = end.parked_ns - end.notice_ns;
    const int64_t beyond_ns = took_ns - 2 * end.longest_step_ns;
    INFO("parked after " << took_ns << " ns, longest step " << end.longest_step_ns
                         << " ns, a message up to " << plan.delay_ns << " ns");
    CHECK(beyond_ns <= kParkSlackNs);
    ++tally.bounded;
    tally.worst_ns = std::max(tally.worst_ns, beyond_ns);
    tally.steps += static_cast<double>(took_ns) / static_cast<double>(end.longest_step_ns);
  }
}

}  // namespace

// TIDE_AGREEMENT_TRIALS: how many.
TEST_CASE("random trials: one stop step, no rank left waiting, and soon") {
  Tally tally;
  const uint64_t trials = TrialCount();
  for (uint64_t seed = 0; seed < trials; ++seed) {
    const TrialPlan plan(seed);
    const TrialEnd end = AgreementWorld(plan).Run();
    INFO("seed " << seed << ": " << plan.tasks << " tasks of " << plan.ranks_per_task
                 << " ranks, lock step " << plan.lockstep << ", faults " << plan.faults
                 << "; fired " << end.fired << " of " << end.living << " living, phase "
                 << static_cast<int>(end.phase));
    CheckEnd(plan, end, tally);
  }
  WARN(trials << " trials: " << tally.together << " stopped together, " << tally.none
              << " trained on, " << tally.split << " fell apart, " << tally.saved
              << " with a whole save before; " << tally.bounded
              << " in lock step without faults parked at most "
              << static_cast<double>(tally.worst_ns) / 1e6 << " ms beyond two steps, on average "
              << tally.steps / static_cast<double>(tally.bounded) << " steps after the notice");
}

// A test of the test: what each rule keeps from happening does happen without it.
TEST_CASE("random trials find each rule that is left out") {
  for (const Broken broken :
       {Broken::kTickFence, Broken::kRefusal, Broken::kReadAgain, Broken::kLateCommit}) {
    INFO("rule " << static_cast<int>(broken));
    bool found = false;
    for (uint64_t seed = 0; seed < 10'000 && !found; ++seed) {
      found = AgreementWorld(TrialPlan(seed), broken).Run().two_steps;
    }
    CHECK(found);
  }
}

}  // namespace tide::agent
