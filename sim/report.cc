// How results are written.

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/time.h"
#include "sim/results.h"

namespace tide::sim {
namespace {

using json = nlohmann::ordered_json;

json Optional(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json SpreadJson(const Spread& spread) {
  return {{"mean", spread.mean}, {"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}};
}

double ShareOf(const Results& results, GpuUse use) {
  return results.capacity_gpu_ms == 0 ? 0
                                      : static_cast<double>(results.ledger[use]) /
                                            static_cast<double>(results.capacity_gpu_ms);
}

// printf into a string; lines of results are short.
[[gnu::format(printf, 1, 2)]] std::string Line(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// "4s", "3m12s", "2h05m", "4d06h".
std::string Span(double seconds) {
  return FormatDuration(Duration::Seconds(std::llround(seconds)));
}

std::string SpreadLine(const char* name, const Spread& spread) {
  return Line("%-24s mean %-9s p50 %-8s p90 %-8s p99 %s\n",
              name,
              Span(spread.mean).c_str(),
              Span(spread.p50).c_str(),
              Span(spread.p90).c_str(),
              Span(spread.p99).c_str());
}

json ObjectOf(const Results& results) {
  json ledger = json::object();
  for (const GpuUse each : kSimUses) {
    ledger[std::string(GpuUseName(each))] = ShareOf(results, each);
  }
  return {
      {"policy", results.policy},
      {"jobs", results.jobs},
      {"makespan_s", results.makespan_s},
      {"jct_s", SpreadJson(results.jct_s)},
      {"wait_s", SpreadJson(results.wait_s)},
      {"bounded_slowdown",
       {{"mean", results.bounded_slowdown.mean}, {"p99", results.bounded_slowdown.p99}}},
      {"occupancy", Optional(results.occupancy)},
      {"avoidable_idle", results.avoidable_idle},
      {"useful", results.useful},
      {"preemptions_per_job", results.preemptions_per_job},
      {"cross_zone",
       {{"jobs_max", results.cross_zone.jobs_max},
        {"jobs_total", results.cross_zone.jobs_total},
        {"pairs_max", results.cross_zone.pairs_max}}},
      {"ettr", results.ettr},
      {"ettr_lost",
       {{"save", results.ettr_lost.save},
        {"restart", results.ettr_lost.restart},
        {"recomputed", results.ettr_lost.recomputed},
        {"work", results.ettr_lost.work},
        {"broken", results.ettr_lost.broken},
        {"waiting", results.ettr_lost.waiting}}},
      {"decide_us",
       {{"p50", results.decide_us.p50},
        {"p99", results.decide_us.p99},
        {"max", results.decide_us.max}}},
      {"events", results.events},
      {"gang64_wait_p95_s", Optional(results.gang64_wait_p95_s)},
      {"capacity_gpu_h", static_cast<double>(results.capacity_gpu_ms) / 3.6e6},
      {"ledger", ledger},
      {"faults",
       {{"faults", results.faults.faults},
        {"outages", results.faults.outages},
        {"by_itself", results.faults.by_itself},
        {"named", results.faults.named},
        {"by_person", results.faults.by_person},
        {"still_out", results.faults.still_out},
        {"wrong", results.faults.wrong},
        {"most_at_once", results.faults.most_at_once}}},
  };
}

}  // namespace

std::string ToJson(const Results& results) {
  return ObjectOf(results).dump(2) + "\n";
}

std::string ToJson(std::span<const Results> runs) {
  json list = json::array();
  for (const Results& run : runs) {
    list.push_back(ObjectOf(run));
  }
  return list.dump(2) + "\n";
}

std::string ToText(const Results& results) {
  std::string text;
  text += Line("%-24s %s\n", "policy", results.policy.c_str());
  text += Line("%-24s %zu in %s\n", "jobs", results.jobs, Span(results.makespan_s).c_str());
  text += SpreadLine("completion time", results.jct_s);
  text += SpreadLine("wait", results.wait_s);
  if (results.gang64_wait_p95_s) {
    text +=
        Line("%-24s p95 %s\n", "wait, gangs >= 64 GPUs", Span(*results.gang64_wait_p95_s).c_str());
  }
  text += Line("%-24s mean %.2f, p99 %.1f\n",
               "bounded slowdown",
               results.bounded_slowdown.mean,
               results.bounded_slowdown.p99);
  if (results.occupancy) {
    text += Line("%-24s %.2f %% while demand >= capacity\n", "occupancy", *results.occupancy * 100);
  } else {
    text += Line("%-24s demand never reached the capacity\n", "occupancy");
  }
  text += Line("%-24s %.2f %% of allocated time\n", "useful", results.useful * 100);
  text += Line("%-24s %.4f\n", "effective training time", results.ettr);
  text += Line("%-24s %.3f per job\n", "preemptions", results.preemptions_per_job);
  if (const FaultRecord& faults = results.faults; faults.faults > 0) {
    text += Line("%-24s %llu faults, %llu nodes out: %llu back by themselves, %llu\n",
                 "nodes",
                 static_cast<unsigned long long>(faults.faults),
                 static_cast<unsigned long long>(faults.outages),
                 static_cast<unsigned long long>(faults.by_itself),
                 static_cast<unsigned long long>(faults.named));
    text += Line("%-24s named for repair, %llu by a person unasked, %llu sound ones out\n",
                 "",
                 static_cast<unsigned long long>(faults.by_person),
                 static_cast<unsigned long long>(faults.wrong));
  }
  text += Line("%-24s at most %u at a time, %u in all, %u pairs\n",
               "cross-zone jobs",
               results.cross_zone.jobs_max,
               results.cross_zone.jobs_total,
               results.cross_zone.pairs_max);
  text += Line("%-24s p50 %.0f us, p99 %.0f us, max %.0f us; %llu events\n",
               "decisions",
               results.decide_us.p50,
               results.decide_us.p99,
               results.decide_us.max,
               static_cast<unsigned long long>(results.events));
  text += Line("where %.0f GPU hours went\n", static_cast<double>(results.capacity_gpu_ms) / 3.6e6);
  for (const GpuUse each : kSimUses) {
    text += Line(
        "  %-22s %7.3f %%\n", std::string(GpuUseName(each)).c_str(), ShareOf(results, each) * 100);
  }
  return text;
}

std::string ToComparison(std::span<const Results> runs) {
  std::string text = Line("%-13s %8s %8s %8s %9s %6s %6s %6s %7s\n",
                          "",
                          "JCT",
                          "wait",
                          "wait p99",
                          "gang p95",
                          "busy %",
                          "used %",
                          "lost %",
                          "preempt");
  for (const Results& run : runs) {
    const auto percent = [](double share) { return Line("%.2f", share * 100); };
    text += Line("%-13s %8.0f %8.0f %8.0f %9s %6s %6s %6s %7.3f\n",
                 run.policy.c_str(),
                 run.jct_s.mean,
                 run.wait_s.mean,
                 run.wait_s.p99,
                 run.gang64_wait_p95_s ? Line("%.0f", *run.gang64_wait_p95_s).c_str() : "-",
                 run.occupancy ? percent(*run.occupancy).c_str() : "-",
                 percent(run.useful).c_str(),
                 percent(run.avoidable_idle).c_str(),
                 run.preemptions_per_job);
  }
  text +=
      "JCT, wait: mean seconds. gang p95: wait of jobs of 64 GPUs and more. busy:\n"
      "occupancy. used: useful share of allocated. lost: avoidable idle. preempt: per\n"
      "job.\n";
  return text;
}

std::string ToJobsCsv(const Trace& trace, const RunRecord& run) {
  std::string text =
      "job_id,gpus,submit_s,first_start_s,end_s,wait_s,fault_wait_s,preemptions,faults,ettr\n";
  for (size_t i = 0; i < run.jobs.size(); ++i) {
    const JobRecord& job = run.jobs[i];
    text += trace.jobs[i].id;
    text += Line(",%u,%.3f,%.3f,%.3f,%.3f,%.3f,%u,%u,%.6f\n",
                 job.gpus,
                 static_cast<double>(job.submit_ms) / 1000,
                 static_cast<double>(job.first_start_ms) / 1000,
                 static_cast<double>(job.end_ms) / 1000,
                 static_cast<double>(job.wait_ms) / 1000,
                 static_cast<double>(job.fault_wait_ms) / 1000,
                 job.preemptions,
                 job.faults,
                 EttrOf(job));
  }
  return text;
}

}  // namespace tide::sim
