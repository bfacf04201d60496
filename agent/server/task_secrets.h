#pragma once
// Secrets of tasks on the node: one file each, below the run root, which is memory and not a disk.
// They come with the order to start, and are in neither its journal nor the task's folder.
//   <run root>/<agent>/secrets/<key>/<name>   mode 0400, the owner's
// Others than the owner do not get into the folder of a task; in a container a task sees its own
// alone.

#include <set>
#include <string>

#include "agent/server/config.h"
#include "common/base/result.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

[[nodiscard]] std::string SecretsDir(const AgentConfig& config, const std::string& key);

// Writes the values that the order brings, and takes them out of it, also on error.
//   Errors: kInvalidArgument when the spec names one that did not come; kUnavailable when they
//   cannot be written here.
[[nodiscard]] Status TakeSecrets(const AgentConfig& config,
                                 const std::string& key,
                                 tide::v1::StartTask& start);

// Of a task that needs them no more.
void RemoveSecrets(const AgentConfig& config, const std::string& key);
// What an earlier agent left behind, but for these.
void RemoveSecretsBut(const AgentConfig& config, const std::set<std::string>& keys);

}  // namespace tide::agent
