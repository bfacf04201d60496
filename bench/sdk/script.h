#pragma once
// Benchmarks of the SDK are programs in Python, as what they measure is used from Python.

#include <string>

#include "bench/bench.h"

namespace tide::bench {

// Runs bench/sdk/NAME.py and adds the figures it prints: JSON lines {case, metric, value, n,
// target, at_most}. What it skips it says on stderr. Aborts when it fails.
void RunSdkScript(Run& run, const std::string& name);

}  // namespace tide::bench
