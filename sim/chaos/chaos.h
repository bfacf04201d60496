#pragma once
// `tide sim --chaos`: the real scheduler core and the real agent core under virtual time, with
// faults; each seed is one world. First faults, with the checkers looking on after every event;
// then calm, in which every job must finish.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/chaos/plan.h"

namespace tide::chaos {

struct ChaosOptions {
  uint64_t first_seed = 1;
  uint64_t last_seed = 200;  // inclusive
  Mutation mutation = Mutation::kNone;
  size_t story_lines = 60;  // of a failure
  bool stop_at_first = false;
  bool twice = true;  // run each seed again and compare
  // Called after each seed; may be empty.
  std::function<void(uint64_t seed, bool passed)> on_seed;
};

struct ChaosFailure {
  uint64_t seed = 0;
  std::string what;                // the rule that broke
  std::vector<std::string> story;  // its newest lines
};

// What the worlds went through: a run in which nothing happens proves nothing.
struct ChaosCounts {
  uint64_t events = 0;
  uint64_t jobs = 0;
  uint64_t attempts = 0;
  uint64_t leaders = 0;
  double virtual_hours = 0;
  std::map<std::string, uint64_t> happened;  // events of the logs and notes of the stories, by name
};

struct ChaosResult {
  uint64_t passed = 0;
  std::vector<ChaosFailure> failures;
  ChaosCounts counts;
};

//   Cost: about 10 ms a seed, run twice.
[[nodiscard]] ChaosResult RunChaos(const ChaosOptions& options);

// "12 passed, 0 failed", and for each failure the rule, the story and the command that replays it.
//   command: what runs one seed, up to the number: "tide sim --chaos --seeds".
[[nodiscard]] std::string Describe(const ChaosResult& result, const std::string& command);

}  // namespace tide::chaos
