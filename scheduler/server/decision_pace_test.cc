#include "scheduler/server/decision_pace.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kNow = 1'000'000 * kMs;

TEST_CASE("the first decision is due") {
  CHECK(DecisionPace().IsDue(0));
}

TEST_CASE("what a decision took puts the next one off, if it changed nothing") {
  struct Row {
    int64_t took;
    bool at_rest;
    int64_t next;
  };
  const auto row = GENERATE(Row{0, true, 0},
                            Row{kMs, true, 9 * kMs},
                            Row{10 * kMs, true, 20 * kMs},
                            Row{80 * kMs, true, 80 * kMs},
                            Row{80 * kMs, false, 0});
  DecisionPace pace;
  pace.Count(row.took, row.at_rest, kNow);
  CHECK(pace.UntilDueNs(kNow) == row.next);
  CHECK(pace.IsDue(kNow + row.next));
  CHECK_FALSE(pace.IsDue(kNow + row.next - 1));
  CHECK(pace.UntilDueNs(kNow + row.next + 5) == 0);
}

}  // namespace
}  // namespace tide
