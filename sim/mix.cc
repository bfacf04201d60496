#include "sim/mix.h"

#include <algorithm>
#include <cmath>

#include "sim/draw.h"

namespace tide::sim {
namespace {

constexpr double kSecondsPerDay = 86'400;
constexpr double kDurationMinS = 60;
constexpr double kDurationMaxS = 7 * kSecondsPerDay;

std::vector<uint32_t> SizesOf(const MixPart& part, int64_t capacity_gpus) {
  std::vector<uint32_t> sizes;
  for (uint32_t gpus = part.gpus_low; gpus <= part.gpus_high && gpus <= capacity_gpus; gpus *= 2) {
    sizes.push_back(gpus);
  }
  return sizes;
}

void AddPart(Trace& trace,
             const MixPart& part,
             int64_t capacity_gpus,
             uint32_t gpus_per_node,
             double days,
             Draw& draw) {
  const std::vector<uint32_t> sizes = SizesOf(part, capacity_gpus);
  if (sizes.empty()) {
    return;
  }
  double mean_gpus = 0;
  for (const uint32_t gpus : sizes) {
    mean_gpus += static_cast<double>(gpus) / static_cast<double>(sizes.size());
  }
  const double mean_s = part.duration_p50_s * std::exp(part.sigma * part.sigma / 2);
  const double gap_s = mean_gpus * mean_s / (part.load * static_cast<double>(capacity_gpus));
  double at = draw.Exponential(gap_s);
  while (at < days * kSecondsPerDay) {
    TraceJob job;
    job.submit_s = static_cast<int64_t>(at);
    job.duration_s = std::llround(
        std::clamp(draw.Lognormal(part.duration_p50_s, part.sigma), kDurationMinS, kDurationMaxS));
    job.gpus = sizes[draw.Below(sizes.size())];
    job.gpus_per_node = std::min(job.gpus, gpus_per_node);
    job.user = job.group = "-";
    job.status = "synthetic";
    job.kind = part.kind;
    trace.jobs.push_back(std::move(job));
    at += draw.Exponential(gap_s);
  }
}

}  // namespace

Trace MakeMix(std::span<const MixPart> parts,
              int64_t capacity_gpus,
              uint32_t gpus_per_node,
              double days,
              uint64_t seed) {
  Trace trace;
  trace.path = "mix";
  Draw draw(seed);
  for (const MixPart& part : parts) {
    AddPart(trace, part, capacity_gpus, gpus_per_node, days, draw);
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.submit_s < b.submit_s;
  });
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    trace.jobs[i].id = std::to_string(i);
    trace.jobs[i].line = static_cast<uint32_t>(i) + 2;
  }
  return trace;
}

std::string ToCsv(const Trace& trace) {
  std::string text = kTraceHeader;
  text += '\n';
  for (const TraceJob& job : trace.jobs) {
    text += job.id + "," + std::to_string(job.submit_s) + "," + std::to_string(job.duration_s) +
            "," + std::to_string(job.gpus) + "," + std::to_string(job.gpus_per_node) + "," +
            job.user + "," + job.group + "," + job.status + "," + job.kind + "\n";
  }
  return text;
}

}  // namespace tide::sim
