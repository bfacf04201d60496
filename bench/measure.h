#pragma once
// Repeats something and keeps how long each time took.
//
// Two clocks. The core computes and never waits, so its time is the CPU time of this thread: what
// it would take on a machine with nothing else to do, whoever shares this one. What waits for
// disks, sockets or other processes is measured in wall time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/time.h"

namespace tide::bench {

enum class Clock {
  kThreadCpu,
  kWall,
};
[[nodiscard]] int64_t ReadNanos(Clock clock);

// How often. The first `warm_up` times are not kept. Something slow ends early: after `budget`,
// but not before `least` samples; how many there are is printed with every figure.
struct Repeat {
  size_t most = 100;
  size_t least = 3;
  size_t warm_up = 3;
  Clock clock = Clock::kThreadCpu;
  Duration budget = Duration::Seconds(5);  // of measured time, warm-up included
};

// Durations of the repetitions.
class Samples {
 public:
  void Add(int64_t nanos) { nanos_.push_back(nanos); }
  void Append(const Samples& other) {
    nanos_.insert(nanos_.end(), other.nanos_.begin(), other.nanos_.end());
  }
  [[nodiscard]] size_t size() const { return nanos_.size(); }
  // Nearest rank: the smallest sample that at least `percent` of all do not exceed. 100 = largest.
  // There must be one.   Cost: O(n log n).
  [[nodiscard]] double PercentileMs(int percent) const;
  [[nodiscard]] double SumMs() const;

 private:
  std::vector<int64_t> nanos_;
};

// `prepare()` makes what one repetition needs and is not timed; `timed(prepared)` is. The result of
// `timed` is destroyed outside of the measured time.
template <typename Prepare, typename Timed>
Samples Measure(const Repeat& repeat, Prepare prepare, Timed timed) {
  Samples samples;
  int64_t spent = 0;
  for (size_t i = 0; samples.size() < repeat.most; ++i) {
    const bool warming_up = i < repeat.warm_up && spent < repeat.budget.nanos();
    if (samples.size() >= repeat.least && spent >= repeat.budget.nanos()) {
      break;
    }
    auto prepared = prepare();
    const int64_t start = ReadNanos(repeat.clock);
    [[maybe_unused]] const auto result = timed(prepared);
    const int64_t took = ReadNanos(repeat.clock) - start;
    spent += took;
    if (!warming_up) {
      samples.Add(took);
    }
  }
  return samples;
}

// The same where nothing has to be prepared.
template <typename Timed>
Samples Measure(const Repeat& repeat, Timed timed) {
  return Measure(repeat, [] { return 0; }, [&](int) { return timed(); });
}

}  // namespace tide::bench
