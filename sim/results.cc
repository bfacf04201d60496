#include "sim/results.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace tide::sim {
namespace {

constexpr double kSlowdownBoundS = 10;
constexpr uint32_t kGangGpus = 64;

double Ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double Seconds(int64_t ms) {
  return static_cast<double>(ms) / 1000;
}

double BoundedSlowdown(const JobRecord& job) {
  const double run_s = std::max(Seconds(job.duration_ms), kSlowdownBoundS);
  return std::max(1.0, Seconds(job.end_ms - job.submit_ms) / run_s);
}

void AddJobs(const RunRecord& run, Results& results) {
  std::vector<double> jct;
  std::vector<double> wait;
  std::vector<double> slowdown;
  std::vector<double> gang_wait;
  int64_t preemptions = 0;
  int64_t waited = 0;
  int64_t broken = 0;
  for (const JobRecord& job : run.jobs) {
    TIDE_CHECK(job.end_ms >= job.submit_ms, "every job of the trace has ended");
    jct.push_back(Seconds(job.end_ms - job.submit_ms));
    wait.push_back(Seconds(job.wait_ms));
    slowdown.push_back(BoundedSlowdown(job));
    if (job.gpus >= kGangGpus) {
      gang_wait.push_back(Seconds(job.wait_ms));
    }
    preemptions += job.preemptions;
    waited += job.fault_wait_ms * job.gpus;
    broken += job.broken_gpu_ms;
    results.ledger.Add(job.held);
  }
  results.jct_s = SpreadOf(std::move(jct));
  results.wait_s = SpreadOf(std::move(wait));
  results.bounded_slowdown = SpreadOf(std::move(slowdown));
  if (!gang_wait.empty()) {
    results.gang64_wait_p95_s = SpreadOf(std::move(gang_wait)).p95;
  }
  results.preemptions_per_job = Ratio(preemptions, static_cast<int64_t>(run.jobs.size()));
  const int64_t span = results.ledger.Total() + waited;  // of jobs alone, so far
  const auto share = [&](GpuUse use) { return Ratio(results.ledger[use], span); };
  results.ettr = share(GpuUse::kUseful);
  results.ettr_lost = {share(GpuUse::kSave),
                       share(GpuUse::kRestart),
                       share(GpuUse::kLostToPreemption),
                       Ratio(results.ledger[GpuUse::kLostToFaults] - broken, span),
                       Ratio(broken, span),
                       Ratio(waited, span)};
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  const auto quantile = [&](double q) {
    return values[static_cast<size_t>(std::max(1.0, std::ceil(q * count))) - 1];
  };
  return {sum / count, quantile(0.5), quantile(0.9), quantile(0.95), quantile(0.99), values.back()};
}

double EttrOf(const JobRecord& job) {
  return Ratio(job.held[GpuUse::kUseful], job.held.Total() + job.fault_wait_ms * job.gpus);
}

Results Summarize(const RunRecord& run) {
  Results results;
  results.policy = run.policy;
  results.jobs = run.jobs.size();
  AddJobs(run, results);
  const UsageMeter& meter = run.meter;
  TIDE_CHECK(
      results.ledger.Held() == meter.allocated() && results.ledger.Total() == meter.allocated(),
      "what jobs held is what the cluster gave");
  results.ledger.Add(meter.idle());
  results.faults = run.faults;
  results.makespan_s = Seconds(meter.elapsed_ms());
  results.capacity_gpu_ms = meter.capacity() * meter.elapsed_ms();
  TIDE_CHECK(results.ledger.Total() == results.capacity_gpu_ms,
             "every GPU-millisecond is in exactly one class");
  if (meter.Occupancy() >= 0) {
    results.occupancy = meter.Occupancy();
  }
  results.avoidable_idle = Ratio(results.ledger[GpuUse::kIdleAvoidable], results.capacity_gpu_ms);
  results.useful = Ratio(results.ledger[GpuUse::kUseful], meter.allocated());
  results.cross_zone = run.cross_zone;
  std::vector<double> decide_us;
  decide_us.reserve(run.decide_ns.size());
  for (const int64_t ns : run.decide_ns) {
    decide_us.push_back(static_cast<double>(ns) / 1000);
  }
  results.decide_us = SpreadOf(std::move(decide_us));
  results.events = run.events;
  return results;
}

}  // namespace tide::sim
