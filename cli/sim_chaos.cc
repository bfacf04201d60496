#include "cli/sim_chaos.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/chaos/chaos.h"

namespace tide::cli {
namespace {

using chaos::ChaosOptions;
using chaos::ChaosResult;
using chaos::Mutation;

volatile std::sig_atomic_t current_seed = 0;

// A failed check of the cores ends the process: say in which seed.
void OnAbort(int /*signal*/) {
  char line[64];
  const int length =
      std::snprintf(line, sizeof line, "tide: seed %ld aborted\n", static_cast<long>(current_seed));
  static_cast<void>(write(STDERR_FILENO, line, static_cast<size_t>(length)));
}

std::vector<std::string> MutationNames() {
  std::vector<std::string> names;
  for (int i = 1; i < chaos::kMutationCount; ++i) {
    names.emplace_back(MutationName(static_cast<Mutation>(i)));
  }
  return names;
}

Mutation MutationOf(const std::string& name) {
  for (int i = 1; i < chaos::kMutationCount; ++i) {
    if (MutationName(static_cast<Mutation>(i)) == name) {
      return static_cast<Mutation>(i);
    }
  }
  return Mutation::kNone;
}

// "7" or "1..200"; nothing if it is neither.
bool ParseSeeds(const std::string& text, ChaosOptions& options) {
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, options.first_seed);
  options.last_seed = options.first_seed;
  if (read.ec == std::errc() && std::string_view(read.ptr, end).starts_with("..")) {
    read = std::from_chars(read.ptr + 2, end, options.last_seed);
  }
  return read.ec == std::errc() && read.ptr == end && options.first_seed <= options.last_seed;
}

nlohmann::json ToJson(const ChaosResult& result) {
  nlohmann::json failures = nlohmann::json::array();
  for (const chaos::ChaosFailure& failure : result.failures) {
    failures.push_back({{"seed", failure.seed}, {"what", failure.what}, {"story", failure.story}});
  }
  return {{"passed", result.passed},
          {"failed", result.failures.size()},
          {"failures", failures},
          {"events", result.counts.events},
          {"jobs", result.counts.jobs},
          {"attempts", result.counts.attempts},
          {"leaders", result.counts.leaders},
          {"virtual_hours", result.counts.virtual_hours},
          {"happened", result.counts.happened}};
}

}  // namespace

void AddChaosFlags(CLI::App& verb, ChaosFlags& flags) {
  verb.add_flag("--chaos", flags.on, "Instead: Tide itself in small worlds in which all breaks")
      ->excludes("--trace", "--mix-days");
  verb.add_option("--seeds", flags.seeds, "With --chaos: the worlds, A..B or one; 1..200");
  verb.add_option("--plant", flags.plant, "With --chaos: plant this bug, stop where it is caught")
      ->check(CLI::IsMember(MutationNames()));
  verb.add_option("--story-lines", flags.story_lines, "With --chaos: lines told of a failure; 60")
      ->check(CLI::Range(1, 1'000'000));
}

int RunChaosWorlds(Context& context, const ChaosFlags& flags) {
  ChaosOptions options;
  options.mutation = MutationOf(flags.plant);
  options.story_lines = flags.story_lines;
  options.stop_at_first = !flags.plant.empty();
  if (!ParseSeeds(flags.seeds, options)) {
    return context.Report({kExitUsage,
                           "--seeds is \"" + flags.seeds +
                               "\"; expected one number, or two of which the first is not above "
                               "the second: 1..200",
                           {},
                           false});
  }
  current_seed = static_cast<std::sig_atomic_t>(options.first_seed);
  options.on_seed = [](uint64_t seed, bool /*passed*/) {
    current_seed = static_cast<std::sig_atomic_t>(seed + 1);
  };
  std::signal(SIGABRT, OnAbort);
  const ChaosResult result = RunChaos(options);
  std::signal(SIGABRT, SIG_DFL);
  if (context.format() == Format::kTable) {
    const std::string plant = flags.plant.empty() ? "" : "--plant " + flags.plant + " ";
    context.Print(Describe(result, "tide sim --chaos " + plant + "--seeds"));
  } else {
    context.PrintJson(ToJson(result));
  }
  return result.failures.empty() ? kExitOk : kExitFailed;
}

}  // namespace tide::cli
