#include "sim/chaos/chaos.h"

#include <optional>

#include "sim/chaos/world.h"

namespace tide::chaos {
namespace {

struct Ending {
  uint64_t hash = 0;
  std::optional<std::string> broken;
  std::vector<std::string> story;
};

Ending RunOnce(uint64_t seed, Mutation mutation, size_t keep_lines, ChaosCounts& counts) {
  World world(seed, mutation, keep_lines);
  Ending outcome;
  try {
    world.Run();
  } catch (const Broken& broken) {
    outcome.broken = broken.what();
  }
  outcome.hash = world.story().hash();
  outcome.story.assign(world.story().lines().begin(), world.story().lines().end());
  world.AddTo(counts);
  return outcome;
}

}  // namespace

ChaosResult RunChaos(const ChaosOptions& options) {
  ChaosResult result;
  for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
    const Ending first = RunOnce(seed, options.mutation, 0, result.counts);
    std::optional<std::string> broken = first.broken;
    std::vector<std::string> story;
    if (options.twice || broken) {
      ChaosCounts ignored;
      const Ending second =
          RunOnce(seed, options.mutation, broken ? options.story_lines : 0, ignored);
      story = second.story;
      if (second.hash != first.hash) {
        broken = "two runs of this seed differ" + (broken ? ": " + *broken : std::string());
      }
    }
    if (broken) {
      result.failures.push_back({seed, *broken, story});
    } else {
      ++result.passed;
    }
    if (options.on_seed) {
      options.on_seed(seed, !broken);
    }
    if (broken && options.stop_at_first) {
      break;
    }
  }
  return result;
}

std::string Describe(const ChaosResult& result, const std::string& command) {
  std::string text;
  for (const ChaosFailure& failure : result.failures) {
    for (const std::string& line : failure.story) {
      text += line + "\n";
    }
    text += "seed " + std::to_string(failure.seed) + ": " + failure.what + "\n";
    text += "replay: " + command + " " + std::to_string(failure.seed) + ".." +
            std::to_string(failure.seed) + "\n\n";
  }
  text += std::to_string(result.passed) + " passed, " + std::to_string(result.failures.size()) +
          " failed\n";
  return text;
}

}  // namespace tide::chaos
