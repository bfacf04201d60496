#include "scheduler/core/model/run_history.h"

#include <algorithm>
#include <bit>

namespace tide {
namespace {

void Keep(PastRuns& runs, const PastRun& run, size_t most) {
  runs.insert(std::ranges::upper_bound(runs, run), run);
  if (runs.size() > most) {
    runs.erase(runs.begin());
  }
}

}  // namespace

uint32_t SizeClassOf(const JobSpec& spec) {
  return static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(ChargedGpus(spec))));
}

void RunHistory::Add(const Job& job, Instant ended) {
  if (job.run_time <= Duration()) {
    return;  // it never ran
  }
  const PastRun run{ended, job.id, job.run_time};
  const uint32_t size = SizeClassOf(job.spec);
  Keep(own[{{job.spec.project, job.user}, size}], run, kOwnRunsMax);
  Keep(all[size], run, kAllRunsMax);
}

}  // namespace tide
