#pragma once
// Benchmarks that are programs in Python: those of the SDK, as what they measure is used from
// Python, and those that compare with a peer, whose programs they start.

#include <string>

#include "bench/bench.h"

namespace tide::bench {

// Runs bench/NAME.py and adds the figures it prints: JSON lines {case, metric, value, n,
// target, at_most}. What it skips it says on stderr. Aborts when it fails.
void RunScript(Run& run, const std::string& name);

}  // namespace tide::bench
