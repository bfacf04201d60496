#pragma once
// From an order to start to everything the runtime needs: ranks, environment, mounts, limits.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/effect.h"
#include "agent/identity/spec_path.h"
#include "agent/images/store.h"
#include "agent/runtime/task_config.h"
#include "agent/server/config.h"
#include "tide/v1/agent.pb.h"

namespace tide::agent {

// "<job>.<epoch>.<task>"
[[nodiscard]] std::string TaskKey(const TaskId& id);

// Errors: kInvalidArgument for what TaskKey does not give.
[[nodiscard]] Result<TaskId> ParseTaskKey(const std::string& key);

// Of any order or request that names a task.
template <typename Message>
[[nodiscard]] TaskId IdOf(const Message& message) {
  return {message.job_id(), message.epoch(), message.task()};
}

// The folder with pages and rank socket as the agent sees it.
// Removes the checkpoint folder that PlanStart chose for the job, if nothing is in it. Only when
// the job is over: on a shared file system another node may be about to start it.
void RemoveUnusedCheckpointDir(const AgentConfig& config, const tide::v1::StartTask& start);
[[nodiscard]] std::string RunDir(const AgentConfig& config, const std::string& key);

// Checks and prepares what the job asks for, with the job user's permissions: working folder,
// checkpoint folder, mounts, the master's port.
//   image: of the container; null = the node's own root.
//   Errors: what is missing or not allowed, in words for the user of the job.
[[nodiscard]] Result<TaskConfig> PlanStart(const AgentConfig& config,
                                           const tide::v1::StartTask& start,
                                           const Image* image = nullptr);

// Where jobs may name paths on this node.
[[nodiscard]] Result<PathRules> RulesOf(const AgentConfig& config);

// Whose job it is.
[[nodiscard]] JobUser UserOf(const tide::v1::StartTask& start);
// As whom the ranks of a task run: as it was planned, else as it would be now.
[[nodiscard]] Result<Owner> OwnerOfTask(const AgentConfig& config,
                                        const tide::v1::StartTask& start);

// The digests of the images that tasks of this agent have, alive or not cleared away; nothing where
// one cannot be read.
[[nodiscard]] std::optional<ImagesOfTasks> ImagesInUse(const std::string& state_dir);

// When the scheduler last answered this agent, for its successors and its tasks' supervisors.
[[nodiscard]] std::string ContactPath(const AgentConfig& config);
// The same for one task of a gang, with its witness.
[[nodiscard]] std::string TaskContactPath(const AgentConfig& config, const std::string& key);

// Keys of the tasks that have a run folder.
[[nodiscard]] std::vector<std::string> ListRunDirs(const AgentConfig& config);

// Removes the pages, the lease and the secrets of a task that is gone.
void ClearRunDir(const AgentConfig& config, const std::string& key);

}  // namespace tide::agent
