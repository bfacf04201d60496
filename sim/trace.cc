#include "sim/trace.h"

#include <algorithm>
#include <cmath>

#include "sim/csv.h"

namespace tide::sim {
namespace {

constexpr size_t kTextMax = size_t{1} << 30U;
constexpr size_t kJobsMax = 10'000'000;
constexpr double kSecondsMax = 1e9;  // 31 years
constexpr int64_t kGpusMax = 1'000'000;
constexpr size_t kIdMax = 100;

enum Field : size_t {
  kId,
  kSubmit,
  kDuration,
  kGpus,
  kGpusPerNode,
  kUser,
  kGroup,
  kStatus,
  kKind
};

Result<TraceJob> ReadJob(const CsvReader& csv) {
  TraceJob job;
  job.line = csv.line();
  TIDE_ASSIGN(job.id, csv.Name(kId, kIdMax));
  TIDE_ASSIGN(const double submit, csv.Decimal(kSubmit, 0, kSecondsMax));
  TIDE_ASSIGN(const double duration, csv.Decimal(kDuration, 0, kSecondsMax));
  TIDE_ASSIGN(const int64_t gpus, csv.Integer(kGpus, 1, kGpusMax));
  TIDE_ASSIGN(const int64_t per_node, csv.Integer(kGpusPerNode, 1, gpus));
  job.submit_s = std::llround(submit);
  job.duration_s = std::max<int64_t>(1, std::llround(duration));
  job.gpus = static_cast<uint32_t>(gpus);
  job.gpus_per_node = static_cast<uint32_t>(per_node);
  job.user = csv.Text(kUser);
  job.group = csv.Text(kGroup);
  job.status = csv.Text(kStatus);
  job.kind = csv.Text(kKind);
  return job;
}

}  // namespace

Result<Trace> ParseTrace(const std::string& path, std::string_view text) {
  Trace trace;
  trace.path = path;
  CsvReader csv(path, text);
  TIDE_TRY(csv.ReadHeader(kTraceHeader));
  for (;;) {
    TIDE_ASSIGN(const bool more, csv.Next());
    if (!more) {
      break;
    }
    if (trace.jobs.size() == kJobsMax) {
      return Fail(
          ErrorCode::kExhausted,
          path + " holds more than " + std::to_string(kJobsMax) + " jobs: cut it into parts");
    }
    TIDE_ASSIGN(TraceJob job, ReadJob(csv));
    trace.jobs.push_back(std::move(job));
  }
  if (trace.jobs.empty()) {
    return Fail(ErrorCode::kInvalidArgument, path + ":2:1: there is no job; expected at least one");
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.submit_s < b.submit_s;
  });
  return trace;
}

Result<Trace> ReadTrace(const std::string& path) {
  TIDE_ASSIGN(const std::string text, ReadMaybeGzip(path, kTextMax));
  return ParseTrace(path, text);
}

}  // namespace tide::sim
