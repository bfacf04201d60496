#include "sim/results.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace tide::sim {
namespace {

// One job of 4 GPUs on a cluster of 8: waits 10 s, runs 30 s of which 5 s are a restart; then
// 10 s of nothing.
RunRecord OneJob() {
  RunRecord run;
  run.policy = "test";
  run.meter = UsageMeter(8);
  run.meter.Observe(0, {.pending = 4, .avoidable = 4});
  run.meter.Observe(10'000, {.allocated = 4});
  run.meter.Observe(40'000, {});
  run.meter.Observe(50'000, {});
  JobRecord job;
  job.gpus = 4;
  job.first_start_ms = 10'000;
  job.end_ms = 40'000;
  job.duration_ms = 25'000;
  job.wait_ms = 10'000;
  job.preemptions = 1;
  job.held[GpuUse::kUseful] = 25'000 * 4;
  job.held[GpuUse::kRestart] = 5'000 * 4;
  run.jobs.push_back(job);
  return run;
}

}  // namespace

TEST_CASE("results: quantiles are nearest rank") {
  const Spread spread = SpreadOf({4, 1, 3, 2});
  CHECK(spread.mean == 2.5);
  CHECK(spread.p50 == 2);
  CHECK(spread.p90 == 4);
  CHECK(SpreadOf({}).max == 0);
}

TEST_CASE("results: figures of one job by hand") {
  const Results results = Summarize(OneJob());
  CHECK(results.makespan_s == 50);
  CHECK(results.jct_s.mean == 40);
  CHECK(results.wait_s.p50 == 10);
  CHECK(results.bounded_slowdown.mean == Approx(40.0 / 25));
  CHECK_FALSE(results.occupancy.has_value());  // demand never reached 8 GPUs
  CHECK_FALSE(results.gang64_wait_p95_s.has_value());
  CHECK(results.useful == Approx(25.0 / 30));
  CHECK(results.ettr == Approx(25.0 / 30));
  CHECK(results.ettr_lost.restart == Approx(5.0 / 30));
  CHECK(results.avoidable_idle == Approx(40.0 / 400));
  CHECK(results.ledger[GpuUse::kIdleNoFit] == 40'000);
  CHECK(results.ledger[GpuUse::kIdleNoDemand] == 4 * 30'000 + 8 * 10'000);
}

TEST_CASE("results: the ledger's shares add up to one") {
  const auto json = nlohmann::json::parse(ToJson(Summarize(OneJob())));
  double sum = 0;
  for (const auto& [name, share] : json["ledger"].items()) {
    sum += share.get<double>();
  }
  CHECK(sum == Approx(1).epsilon(1e-12));
  CHECK(json["ledger"].size() == kSimUses.size());
}

TEST_CASE("results: the JSON has the documented keys") {
  const auto json = nlohmann::json::parse(ToJson(Summarize(OneJob())));
  for (const char* key : {"policy",
                          "jobs",
                          "makespan_s",
                          "jct_s",
                          "wait_s",
                          "bounded_slowdown",
                          "occupancy",
                          "avoidable_idle",
                          "useful",
                          "preemptions_per_job",
                          "cross_zone",
                          "ettr",
                          "ettr_lost",
                          "decide_us",
                          "events",
                          "gang64_wait_p95_s",
                          "capacity_gpu_h",
                          "ledger",
                          "faults"}) {
    CHECK(json.contains(key));
  }
  CHECK(json["jct_s"].size() == 4);
  CHECK(json["cross_zone"].contains("pairs_max"));
  CHECK(json["occupancy"].is_null());
}

TEST_CASE("results: lines for people fit 80 columns") {
  RunRecord run = OneJob();
  run.jobs.front().gpus = 4;
  std::istringstream lines(ToText(Summarize(run)));
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
  }
}

}  // namespace tide::sim
