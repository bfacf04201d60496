#pragma once
// What every part of a world shares: time, chance, the seed's plan, the story.

#include "sim/chaos/plan.h"
#include "sim/chaos/story.h"
#include "sim/chaos/timeline.h"

namespace tide::chaos {

struct Context {
  Context(uint64_t seed, Mutation planted, size_t keep_lines)
      : prng(seed), mutation(planted), plan(DrawPlan(prng)), story(keep_lines) {}

  [[nodiscard]] Instant now() const { return timeline.now(); }
  // With `ppm` in a million, while faults are on.
  [[nodiscard]] bool Strikes(uint32_t ppm) {
    return faults_on && ppm > 0 && prng.Below(1'000'000) < ppm;
  }
  // Uniform, in microseconds.
  [[nodiscard]] Duration Between(Duration least, Duration most) {
    const auto span = static_cast<uint64_t>((most - least).nanos() / 1000);
    return least + Duration::Nanos(static_cast<int64_t>(prng.Below(span + 1)) * 1000);
  }
  [[nodiscard]] Duration BetweenMs(int64_t least, int64_t most) {
    return Between(Duration::Millis(least), Duration::Millis(most));
  }
  void After(Duration wait, Timeline::Action action) { timeline.After(wait, std::move(action)); }
  void Note(std::string_view what, Story::Fields fields) { story.Note(now(), what, fields); }

  Timeline timeline{Instant::FromUnixNanos(1'800'000'000'000'000'000)};
  Prng prng;
  const Mutation mutation;
  const Plan plan;
  Story story;
  bool faults_on = true;
};

}  // namespace tide::chaos
