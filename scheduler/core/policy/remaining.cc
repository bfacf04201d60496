#include "scheduler/core/policy/remaining.h"

#include <algorithm>

namespace tide {
namespace {

// The range holds the middle three fifths of what is thinkable for one job.
constexpr std::array<int64_t, kOutlooks> kPercent = {20, 50, 80};
// Fewer past runs than this say less than the next rule.
constexpr std::ptrdiff_t kOwnLeast = 5;
constexpr std::ptrdiff_t kAllLeast = 8;
// The law of elapsed time takes a job to have run this long at least: with nothing known at all, a
// new job is as likely as not to run for longer.
constexpr Duration kElapsedLeast = Duration::Minutes(10);
// Nothing below is more exact than that, and sums of spans stay within range.
constexpr Duration kSpanMax = Duration::Minutes(60 * 24 * 365);

std::vector<Duration> SortedSpans(const PastRuns& runs) {
  std::vector<Duration> spans;
  spans.reserve(runs.size());
  for (const PastRun& run : runs) {
    spans.push_back(run.ran);
  }
  std::ranges::sort(spans);
  return spans;
}

// Quantiles of what was still to come, in the past runs of the size that were longer than `ran`.
// False: too few.
bool FromPast(const RunTimes::BySize& runs,
              uint32_t size,
              Duration ran,
              std::ptrdiff_t least,
              Remaining& out) {
  const auto past = runs.find(size);
  if (past == runs.end()) {
    return false;
  }
  const auto longer = std::ranges::upper_bound(past->second, ran);
  const std::ptrdiff_t count = past->second.end() - longer;
  if (count < least) {
    return false;
  }
  for (size_t i = 0; i < kOutlooks; ++i) {
    out.spans[i] = longer[(count - 1) * kPercent[i] / 100] - ran;
  }
  return true;
}

}  // namespace

RunTimes::RunTimes(const RunHistory& history) {
  for (const auto& [key, runs] : history.own) {
    own_[key.first].emplace(key.second, SortedSpans(runs));
  }
  for (const auto& [size, runs] : history.all) {
    all_.emplace_hint(all_.end(), size, SortedSpans(runs));
  }
}

const RunTimes::BySize* RunTimes::OwnRuns(const std::string& project,
                                          const std::string& user) const {
  const auto own = own_.find({project, user});
  return own == own_.end() ? nullptr : &own->second;
}

Remaining RunTimes::Of(const Job& job, const BySize* own, Duration ran) const {
  Remaining remaining;
  const uint32_t size = SizeClassOf(job.spec);
  if (own != nullptr && FromPast(*own, size, ran, kOwnLeast, remaining)) {
    remaining.basis = RunTimeBasis::kOwnRuns;
  } else if (FromPast(all_, size, ran, kAllLeast, remaining)) {
    remaining.basis = RunTimeBasis::kAllRuns;
  } else {
    const Duration elapsed = std::clamp(ran, kElapsedLeast, kSpanMax);
    for (size_t i = 0; i < kOutlooks; ++i) {
      remaining.spans[i] = Duration::Nanos(elapsed.nanos() / (100 - kPercent[i]) * kPercent[i]);
    }
  }
  const Duration limit = job.spec->max_runtime;
  const Duration bound = limit > Duration() ? std::max(limit - ran, Duration()) : kSpanMax;
  if (limit > Duration() && remaining.basis == RunTimeBasis::kElapsed) {
    // People state limits that are too long rather than too short, but nobody knows by how much:
    // the likely end is the sooner of the two.
    remaining.basis = RunTimeBasis::kLimit;
    remaining.spans[static_cast<size_t>(Outlook::kLate)] = bound;
  }
  for (Duration& span : remaining.spans) {
    span = std::min(span, bound);
  }
  return remaining;
}

}  // namespace tide
