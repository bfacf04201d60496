#pragma once
// Where the programs are that a benchmark runs.

#include <string>

namespace tide::bench {

// The program of that name beside this one, or in bin/ where this is a test. Aborts without it.
[[nodiscard]] std::string ProgramBeside(const std::string& name);

}  // namespace tide::bench
