// How well start estimates are calibrated: on public traces, replayed by the real scheduler core.

#include "sim/replay/estimate_log.h"

#include <catch2/catch.hpp>

#include "sim/replay/replay.h"
#include "sim/testing/traces.h"
#include "sim/workload.h"

namespace tide::sim {
namespace {

using testing::TraceOf;

struct Calibrated {
  const char* trace;
  uint32_t nodes;
  double compress;
  UserRule users;
  double inside_least;  // share of answers
};

void Calibrate(const Calibrated& row) {
  const std::string path = testing::TracesFolder() + "/" + row.trace;
  auto trace = ReadTrace(path);
  if (!trace && trace.error().code == ErrorCode::kNotFound) {
    WARN("skipped: there is no " << path << "; TIDE_TRACES names the folder");
    return;
  }
  REQUIRE(trace.has_value());
  Compress(*trace, row.compress);
  AssignUsers(*trace, row.users, 1);
  EstimateLog log(Duration::Minutes(10));
  ReplayOptions options;
  options.costs.save_ms = 20'000;
  options.costs.restart_ms = 40'000;
  options.watch = [&](const ClusterState& state, const Policy& policy, Instant now) {
    log.Watch(state, policy, now);
  };
  REQUIRE(ReplayTrace(*trace, FlatCluster(row.nodes, 8), options).has_value());
  INFO(row.trace << ", no estimate: " << log.unanswered() << "\n" << log.Table());
  REQUIRE(log.answers() > 0);
  CHECK(static_cast<double>(log.inside()) / static_cast<double>(log.answers()) > row.inside_least);
}

constexpr UserRule kEachItsOwn = {UserRule::Kind::kJob, 0};
constexpr UserRule kTwentyUsers = {UserRule::Kind::kCount, 20};

}  // namespace

TEST_CASE("estimates are compared with the starts that came") {
  EstimateLog log(Duration::Seconds(1));
  ReplayOptions options;
  options.watch = [&](const ClusterState& state, const Policy& policy, Instant now) {
    log.Watch(state, policy, now);
  };
  // The last two wait for the first of the same class: no slice of it is over by then.
  REQUIRE(
      ReplayTrace(TraceOf({{0, 1000, 8}, {10, 10, 8}, {20, 10, 8}}), FlatCluster(1, 8), options));
  CHECK(log.answers() > 0);
  CHECK(log.unanswered() == 0);
  CHECK(log.rows()[0].answers + log.rows()[1].answers == log.answers());
  CHECK(log.Table().find("| 10 min – 1 h |") != std::string::npos);
}

TEST_CASE("calibration: Philly 2869ce") {
  Calibrate({"philly-vc-2869ce-octnov.csv.gz", 16, 1, kEachItsOwn, 0.5});
  Calibrate({"philly-vc-2869ce-octnov.csv.gz", 16, 1, kTwentyUsers, 0.5});
}

TEST_CASE("calibration: Philly 7f04ca") {
  Calibrate({"philly-vc-7f04ca-octnov.csv.gz", 32, 1, kEachItsOwn, 0.5});
}

TEST_CASE("calibration: Kalos") {
  Calibrate({"kalos-319.csv.gz", 160, 5, kEachItsOwn, 0.5});
}

}  // namespace tide::sim
