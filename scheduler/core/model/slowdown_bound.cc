#include "scheduler/core/model/slowdown_bound.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace tide {
namespace {

// Milliseconds by which the sums of accounts, which are cut to whole ones and decay along straight
// pieces of a curve, may be off: 4 for each decay.
constexpr double kRounding = 32;

double DecayOver(Duration elapsed) {
  return static_cast<double>(Decay(elapsed, kSlowdownHalfLife)) / static_cast<double>(kDecayOne);
}

// Returns what one that does nothing but wait has counted after a time.
double WaitedOver(Duration elapsed) {
  Account waits;
  waits.rate = 1;
  return static_cast<double>(waits.UseAt(waits.as_of + elapsed, kSlowdownHalfLife));
}

// Returns what an account has counted at a moment; if it is of a later one, what would have become
// what it counts.
double CountedAt(Instant at, const Account& account) {
  if (account.as_of <= at) {
    return static_cast<double>(account.UseAt(at, kSlowdownHalfLife));
  }
  const Duration later = account.as_of - at;
  const double grown = account.rate == 0 ? 0 : WaitedOver(later);
  return (static_cast<double>(account.use_ms) - grown) / DecayOver(later);
}

// Reports whether `b` lies above the line from `a` to `c`.
template <typename Times>
bool IsAbove(const Times& a, const Times& b, const Times& c) {
  return (b.ran - a.ran) * (c.waited - a.waited) < (b.waited - a.waited) * (c.ran - a.ran);
}

}  // namespace

bool SlowdownBound::Holds(const Slowdown& slowdown) {
  return slowdown.waited.rate == 1 && slowdown.ran.rate == 0;
}

void SlowdownBound::Add(const Slowdown& job) {
  constexpr Duration kFar = kSlowdownHalfLife * kHalfLivesKept;  // decays stay well above 0
  if (size_ == 0 || job.waited.as_of - as_of_ > kFar) {
    MoveTo(job.waited.as_of);
  }
  if (job.ran.use_ms > 0) {
    forgets_at_ = std::min(forgets_at_, job.ran.as_of + kFar);
  }
  Insert({CountedAt(as_of_, job.ran), CountedAt(as_of_, job.waited)});
}

void SlowdownBound::MoveTo(Instant at) {
  for (Times& each : std::span(edge_.data(), size_)) {
    each.ran *= DecayOver(at - as_of_);
    each.waited = each.waited * DecayOver(at - as_of_) + WaitedOver(at - as_of_);
  }
  as_of_ = at;
}

// With d = 2^(-t / half-life) and what each waits in t, g, a job's slowdown is at most s where
//   waited d + g <= (s - 1) (ran d + least run),
// so the slowest for any t and s lies on the upper left of the hull of (ran, waited).
void SlowdownBound::Insert(const Times& times) {
  const std::span<Times> edge(edge_.data(), size_);
  const auto next = std::ranges::lower_bound(edge, times.ran, {}, &Times::ran);
  const bool shorter = next != edge.begin() && std::prev(next)->waited >= times.waited;
  const bool as_short =
      next != edge.end() && next->ran <= times.ran && next->waited >= times.waited;
  if (shorter || as_short) {
    return;  // one that ran no longer waited as long
  }
  auto after =
      std::find_if(next, edge.end(), [&](const Times& each) { return each.waited > times.waited; });
  auto before = next;  // the end of what stays
  if (before != edge.begin() && after != edge.end() &&
      !IsAbove(*std::prev(before), times, *after)) {
    return;
  }
  while (edge.end() - after > 1 && !IsAbove(times, *after, *std::next(after))) {
    ++after;
  }
  while (before - edge.begin() > 1 && !IsAbove(*(before - 2), *std::prev(before), times)) {
    --before;
  }
  const auto stay = static_cast<size_t>(before - edge.begin());
  const auto left = static_cast<size_t>(edge.end() - after);
  std::array<Times, kEdge + 1> grown;
  std::copy(edge.begin(), before, grown.begin());
  grown[stay] = times;
  std::copy(after, edge.end(), grown.begin() + static_cast<std::ptrdiff_t>(stay) + 1);
  edge_ = grown;
  size_ = stay + 1 + left;
  if (size_ > kEdge) {
    Join();
  }
}

void SlowdownBound::Join() {
  const auto gap = [&](size_t i) {  // how much is claimed that no job has
    return (edge_[i + 1].ran - edge_[i].ran) * (edge_[i + 1].waited - edge_[i].waited);
  };
  size_t least = 0;
  for (size_t i = 1; i + 1 < size_; ++i) {
    least = gap(i) < gap(least) ? i : least;
  }
  const Times joined{edge_[least].ran, edge_[least + 1].waited};
  std::copy(edge_.begin() + static_cast<std::ptrdiff_t>(least) + 2,
            edge_.begin() + static_cast<std::ptrdiff_t>(size_),
            edge_.begin() + static_cast<std::ptrdiff_t>(least) + 1);
  edge_[least] = joined;
  --size_;
}

int64_t SlowdownBound::At(Instant now, Duration minimum_run) const {
  if (size_ == 0) {
    return kNotSlowed;
  }
  const double decay = DecayOver(now - as_of_);
  const double since = WaitedOver(now - as_of_);
  const auto least = static_cast<double>(LeastRun(minimum_run).millis());
  const double kept = now < forgets_at_ ? decay : 0;
  double most = 1;
  for (const Times& each : std::span(edge_.data(), size_)) {
    const double ran = least + std::max(0.0, each.ran * kept - kRounding);
    most = std::max(most, 1 + (each.waited * decay + since + kRounding) / ran);
  }
  return static_cast<int64_t>(std::ceil(most * static_cast<double>(kNotSlowed)));
}

}  // namespace tide
