#include "scheduler/core/slow_watch.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "common/spec/span_text.h"
#include "scheduler/core/stall_watch.h"

namespace tide {
namespace {

constexpr int64_t kRankPercent = 7;
constexpr int64_t kJobPercent = 10;
constexpr size_t kWindows = 5;
constexpr int kSlowWindows = 3;  // of them, for a rank
constexpr uint8_t kWindowsMask = (1U << kWindows) - 1;
// Less than that is the noise of a short step.
constexpr Duration kExcessLeast = Duration::Millis(5);

// Returns the lower one of two in the middle: of two ranks the faster one. 0 = none is known.
Duration MedianOf(std::vector<Duration> spans) {
  std::erase(spans, Duration());
  if (spans.empty()) {
    return {};
  }
  const auto middle = spans.begin() + static_cast<std::ptrdiff_t>((spans.size() - 1) / 2);
  std::ranges::nth_element(spans, middle);
  return *middle;
}

bool Exceeds(Duration span, Duration usual, int64_t percent) {
  return usual.nanos() > 0 && span - usual >= kExcessLeast &&
         span.nanos() / 100 >= usual.nanos() / 10'000 * (100 + percent);
}

std::string Compare(Duration span, Duration usual) {
  const int64_t percent = (span - usual).nanos() / std::max<int64_t>(1, usual.nanos() / 100);
  return std::to_string(percent) + " % longer (" + std::to_string(span.millis()) + " ms against " +
         std::to_string(usual.millis()) + " ms)";
}

template <typename Get>
Duration MedianOver(const std::vector<RankPace>& ranks, const Get& get) {
  std::vector<Duration> spans;
  spans.reserve(ranks.size());
  std::ranges::transform(ranks, std::back_inserter(spans), get);
  return MedianOf(std::move(spans));
}

// Returns how long steps took before the last windows, where all of these were longer.
std::optional<Duration> SlowerThan(const std::deque<Duration>& paces) {
  if (paces.size() < SlowWatch::kWindowsLeast + kWindows) {
    return std::nullopt;
  }
  const auto lately = paces.end() - static_cast<std::ptrdiff_t>(kWindows);
  const Duration before = MedianOf({paces.begin(), lately});
  const bool slower = std::all_of(
      lately, paces.end(), [&](Duration pace) { return Exceeds(pace, before, kJobPercent); });
  return slower ? std::optional(before) : std::nullopt;
}

// Returns the slowest of those that are slow again and again.
std::optional<uint32_t> SlowRankOf(const std::vector<uint8_t>& slow,
                                   const std::vector<RankPace>& ranks) {
  std::optional<uint32_t> found;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (std::popcount(slow[rank]) >= kSlowWindows &&
        (!found || ranks[rank].compute > ranks[*found].compute)) {
      found = rank;
    }
  }
  return found;
}

}  // namespace

void SlowWatch::AddWindow(Known& known, const std::vector<RankPace>& ranks) {
  const Duration median = MedianOver(ranks, [](const RankPace& rank) { return rank.compute; });
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    known.steps[rank] = ranks[rank].step;
    const bool slow = Exceeds(ranks[rank].compute, median, kRankPercent);
    known.slow[rank] =
        static_cast<uint8_t>(((known.slow[rank] << 1U) | (slow ? 1U : 0U)) & kWindowsMask);
  }
  known.paces.push_back(MedianOver(ranks, [](const RankPace& rank) { return rank.pace; }));
  if (known.paces.size() > kWindowsBefore) {
    known.paces.pop_front();
  }
}

std::vector<EventBody> SlowWatch::Check(const ClusterState& state,
                                        const std::vector<SeenPaces>& seen) {
  std::vector<EventBody> events;
  std::erase_if(known_, [&](const auto& each) { return !state.live.contains(each.first); });
  for (const auto& [id, epoch, ranks] : seen) {
    const Job* job = state.FindJob(id);
    if (job == nullptr || StateOf(*job) != JobState::kRunning || ranks.empty() ||
        job->attempts.back().epoch != epoch) {
      continue;
    }
    Known& known = known_[id];
    if (known.epoch != epoch || known.steps.size() != ranks.size()) {
      known = {
          epoch, std::vector<int64_t>(ranks.size(), -1), std::vector<uint8_t>(ranks.size()), {}};
    }
    const bool all_moved = std::ranges::equal(
        ranks, known.steps, [](const RankPace& rank, int64_t step) { return rank.step > step; });
    if (!all_moved) {
      continue;  // the window lasts on
    }
    AddWindow(known, ranks);
    const Attempt& attempt = job->attempts.back();
    const auto note = [&](NoteKind kind, uint32_t rank, std::string text) {
      if (FindNote(attempt, kind) == nullptr) {
        events.emplace_back(JobNoted{.job = id,
                                     .epoch = epoch,
                                     .kind = kind,
                                     .step = ranks[rank].step,
                                     .text = std::move(text)});
      }
    };
    if (const auto slow = SlowRankOf(known.slow, ranks)) {
      note(NoteKind::kSlowRank,
           *slow,
           RankName(state, *job, *slow) + " is slow: it computes " +
               Compare(ranks[*slow].compute,
                       MedianOver(ranks, [](const RankPace& rank) { return rank.compute; })) +
               " than its peers");
    }
    if (const auto before = SlowerThan(known.paces)) {
      note(NoteKind::kSlowJob,
           0,
           "steps take " + Compare(known.paces.back(), *before) + " than before");
    }
  }
  return events;
}

}  // namespace tide
