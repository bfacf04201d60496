#pragma once
// Which runtime this node can use, and if not the better one, why and what to do. For the agent's
// first log lines.

#include <string>

#include "agent/runtime/task_config.h"

namespace tide::agent {

struct Detection {
  RuntimeKind best = RuntimeKind::kProcess;
  std::string runtime_path;  // of runc or crun; empty when neither is there
  std::string version;       // its first line of --version
  std::string why_not_oci;   // empty when `best` is kOci
  double trial_seconds = 0;  // start to exit of a container that runs `true`
};

// Runs a container of the host image as user 65534 under `state_dir`, up to 10 s (usually 0.2 s).
[[nodiscard]] Detection DetectRuntime(const std::string& state_dir, const std::string& init_path);

// "runc 1.1.5 …; a trial container took 0.15 s", or why there are no containers.
[[nodiscard]] std::string Describe(const Detection& detection);

}  // namespace tide::agent
