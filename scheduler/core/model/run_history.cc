#include "scheduler/core/model/run_history.h"

#include <algorithm>
#include <bit>

namespace tide {
namespace {

void Keep(PastRuns& runs, const PastRun& run, size_t most, std::vector<JobId>& forgotten) {
  runs.insert(std::ranges::upper_bound(runs, run), run);
  if (runs.size() > most) {
    forgotten.push_back(runs.front().job);
    runs.erase(runs.begin());
  }
}

template <typename Key>
bool Holds(const std::map<Key, PastRuns>& lists, const Key& key, const PastRun& run) {
  const auto found = lists.find(key);
  return found != lists.end() && std::ranges::binary_search(found->second, run);
}

}  // namespace

uint32_t SizeClassOf(const JobSpec& spec) {
  return static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(ChargedGpus(spec))));
}

std::optional<OwnedRun> RunOf(const Job& job, Instant ended) {
  if (job.run_time <= Duration()) {
    return std::nullopt;
  }
  return OwnedRun{
      job.spec->project, job.user, SizeClassOf(job.spec), PastRun{ended, job.id, job.run_time}};
}

std::vector<JobId> RunHistory::Add(const OwnedRun& owned) {
  std::vector<JobId> forgotten;
  Keep(own[{{owned.project, owned.user}, owned.size}], owned.run, kOwnRunsMax, forgotten);
  Keep(all[owned.size], owned.run, kAllRunsMax, forgotten);
  return forgotten;
}

bool RunHistory::Has(const OwnedRun& owned) const {
  return Holds(own, {{owned.project, owned.user}, owned.size}, owned.run) ||
         Holds(all, owned.size, owned.run);
}

}  // namespace tide
