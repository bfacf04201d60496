// The simulator against published results on public traces (Helios, SC'21; Lucid, ASPLOS'23):
// mean job completion time, mean queueing, preemptions.

#include <catch2/catch.hpp>
#include <optional>

#include "sim/reference/policies.h"
#include "sim/testing/traces.h"

namespace tide::sim {
namespace {

struct Figures {
  double jct_s = 0;
  double wait_s = 0;
  uint32_t preemptions = 0;
};

Figures FiguresOf(const RunRecord& run) {
  Figures figures;
  for (const JobRecord& job : run.jobs) {
    figures.jct_s += static_cast<double>(job.end_ms - job.submit_ms) / 1000;
    figures.wait_s += static_cast<double>(job.wait_ms) / 1000;
    figures.preemptions += job.preemptions;
  }
  const auto jobs = static_cast<double>(run.jobs.size());
  return {figures.jct_s / jobs, figures.wait_s / jobs, figures.preemptions};
}

struct Published {
  const char* trace;
  uint32_t nodes;
  const char* policy;
  Figures figures;
  double tolerance;          // relative, for JCT
  double preempt_tolerance;  // relative
};

void Reproduce(const Published& row) {
  const std::string path = testing::TracesFolder() + "/" + row.trace;
  const auto trace = ReadTrace(path);
  if (!trace && trace.error().code == ErrorCode::kNotFound) {
    WARN("skipped: there is no " << path << "; TIDE_TRACES names the folder");
    return;
  }
  REQUIRE(trace.has_value());
  const auto policy = MakeReference(row.policy, std::nullopt);
  const Figures got = FiguresOf(RunReference(*trace, row.nodes, 8, *policy));
  INFO(row.policy << " on " << row.trace << ": " << got.jct_s << " / " << got.wait_s << " ("
                  << got.preemptions << ")");
  CHECK(got.jct_s == Approx(row.figures.jct_s).epsilon(row.tolerance));
  CHECK(got.wait_s == Approx(row.figures.wait_s).epsilon(row.tolerance));
  CHECK(got.preemptions == Approx(row.figures.preemptions).epsilon(row.preempt_tolerance));
}

constexpr char k2869ce[] = "philly-vc-2869ce-octnov.csv.gz";
constexpr char k7f04ca[] = "philly-vc-7f04ca-octnov.csv.gz";

}  // namespace

TEST_CASE("published: FIFO") {
  Reproduce({k2869ce, 16, "fifo", {70215.98, 21171.63, 0}, 1e-4, 0});
  Reproduce({k7f04ca, 32, "fifo", {133826.04, 1412.21, 0}, 1e-4, 0});
}

TEST_CASE("published: SJF") {
  Reproduce({k2869ce, 16, "sjf", {56388.74, 7344.39, 0}, 1e-4, 0});
  Reproduce({k7f04ca, 32, "sjf", {133271.05, 857.22, 0}, 1e-4, 0});
}

TEST_CASE("published: SRTF") {
  Reproduce({k2869ce, 16, "srtf", {53128.17, 4071.93, 241}, 1e-3, 0.01});
  Reproduce({k7f04ca, 32, "srtf", {132980.77, 565.26, 25}, 1e-3, 0.01});
}

TEST_CASE("published: LAS") {
  Reproduce({k2869ce, 16, "las", {54191.63, 5132.20, 237}, 5e-3, 0.05});
}

}  // namespace tide::sim
