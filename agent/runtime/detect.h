#pragma once
// Which runtime this node can use, and if not the better one, why and what to do. For the agent's
// first log lines.

#include <string>
#include <vector>

#include "agent/runtime/task_config.h"

namespace tide::agent {

struct Detection {
  RuntimeKind best = RuntimeKind::kProcess;
  std::string runtime_path;  // of the program that makes containers; empty when none does
  std::string version;       // its first line of --version
  std::string why_not_oci;   // of each program that was tried; empty when `best` is kOci
  double trial_seconds = 0;  // start to exit of a container that runs `true`
};

// Paths of the installed programs that make containers, runc before crun.
//   name: only this one of them; "" = both.
[[nodiscard]] std::vector<std::string> OciPrograms(const std::string& name = "");

// Takes the first of `programs` that works: each runs a container of the host image as user 65534
// under `state_dir`, up to 10 s (usually 0.2 s).
[[nodiscard]] Detection DetectRuntime(const std::string& state_dir,
                                      const std::string& init_path,
                                      const std::vector<std::string>& programs);

// "runc 1.1.5 …; a trial container took 0.15 s", or why there are no containers.
[[nodiscard]] std::string Describe(const Detection& detection);

}  // namespace tide::agent
