#pragma once
// tide sim --chaos: the scheduler's and the agent's cores in worlds in which everything breaks.

#include <CLI/CLI.hpp>
#include <string>

#include "cli/context.h"

namespace tide::cli {

struct ChaosFlags {
  bool on = false;
  std::string seeds = "1..200";
  std::string plant;  // name of a bug; "" = none
  size_t story_lines = 60;
};

void AddChaosFlags(CLI::App& verb, ChaosFlags& flags);

// "12 passed, 0 failed", with a story and a command to replay for each failure; or the counts as
// JSON. Returns the exit code: kExitFailed if a world broke a rule.
[[nodiscard]] int RunChaosWorlds(Context& context, const ChaosFlags& flags);

}  // namespace tide::cli
