// tide-chaos [--seeds A..B] [--plant NAME] [--lines N] [--first] [--counts]

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "sim/chaos/chaos.h"

namespace {

using tide::chaos::ChaosOptions;
using tide::chaos::Mutation;

constexpr int kExitUsage = 2;
volatile std::sig_atomic_t current_seed = 0;

// A check of the cores ends the process: say which seed it was.
void OnAbort(int /*signal*/) {
  char line[64];
  const int length =
      std::snprintf(line, sizeof line, "seed %ld aborted\n", static_cast<long>(current_seed));
  std::fwrite(line, 1, static_cast<size_t>(length), stderr);
}

int Usage(const char* why) {
  std::fprintf(stderr,
               "tide-chaos: %s\nusage: tide-chaos [--seeds A..B] [--plant NAME] [--lines N] "
               "[--first] [--counts]\nNAME is one of:",
               why);
  for (int i = 1; i < tide::chaos::kMutationCount; ++i) {
    std::fprintf(stderr, " %s", std::string(MutationName(static_cast<Mutation>(i))).c_str());
  }
  std::fprintf(stderr, "\n");
  return kExitUsage;
}

bool ParseSeeds(const char* text, ChaosOptions& options) {
  char* end = nullptr;
  options.first_seed = std::strtoull(text, &end, 10);
  options.last_seed = options.first_seed;
  if (std::strncmp(end, "..", 2) == 0) {
    options.last_seed = std::strtoull(end + 2, &end, 10);
  }
  return *end == '\0' && end != text && options.first_seed <= options.last_seed;
}

bool ParseMutation(std::string_view name, ChaosOptions& options) {
  for (int i = 0; i < tide::chaos::kMutationCount; ++i) {
    if (MutationName(static_cast<Mutation>(i)) == name) {
      options.mutation = static_cast<Mutation>(i);
      return true;
    }
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  ChaosOptions options;
  bool counts = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--counts") {
      counts = true;
      continue;
    }
    if (flag == "--first") {
      options.stop_at_first = true;
      continue;
    }
    if (value == nullptr) {
      return Usage("a flag is unknown or lacks its value");
    }
    ++i;
    if (flag == "--seeds") {
      if (!ParseSeeds(value, options)) {
        return Usage("--seeds wants two numbers, the first not above the second: 1..200");
      }
    } else if (flag == "--plant") {
      if (!ParseMutation(value, options)) {
        return Usage("--plant names no bug that could be planted");
      }
    } else if (flag == "--lines") {
      options.story_lines = std::strtoull(value, nullptr, 10);
    } else {
      return Usage("unknown flag");
    }
  }
  std::signal(SIGABRT, OnAbort);
  current_seed = static_cast<std::sig_atomic_t>(options.first_seed);
  options.on_seed = [](uint64_t seed, bool /*passed*/) {
    current_seed = static_cast<std::sig_atomic_t>(seed + 1);
  };
  const tide::chaos::ChaosResult result = RunChaos(options);
  std::fputs(Describe(result, "tide-chaos --seeds").c_str(), stdout);
  std::printf("%lu events, %lu jobs, %lu attempts, %lu leaders, %.1f virtual hours\n",
              static_cast<unsigned long>(result.counts.events),
              static_cast<unsigned long>(result.counts.jobs),
              static_cast<unsigned long>(result.counts.attempts),
              static_cast<unsigned long>(result.counts.leaders),
              result.counts.virtual_hours);
  if (counts) {
    for (const auto& [what, count] : result.counts.happened) {
      std::printf("%10lu  %s\n", static_cast<unsigned long>(count), what.c_str());
    }
  }
  return result.failures.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
