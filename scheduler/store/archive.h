#pragma once
// Jobs that the state knows no more: their rows move to tables of the same columns, where people
// find them and nothing changes any more. Called inside a transaction, but for the reading.

#include <set>
#include <vector>

#include "scheduler/core/model/state.h"
#include "scheduler/store/database.h"

namespace tide {

// Moves the rows of these jobs, with the events that name them. Cost: O(their rows), in a number
// of statements that grows by eight for each 32 jobs.
[[nodiscard]] Status MoveToArchive(Database& database, const std::set<JobId>& jobs);

// What decisions still ask of archived jobs; a row that the state has no more is deleted.
[[nodiscard]] Status WriteArchivedUse(Database& database,
                                      const ClusterState& state,
                                      const RunHistory::Owner& owner);
[[nodiscard]] Status WriteArchivedRun(Database& database, const ClusterState& state, JobId job);

// An archived job as it was. Errors: kNotFound; kCorrupt.
[[nodiscard]] Result<Job> LoadArchivedJob(Database& database, JobId job);
// All nodes by id, with their names and zones and nothing else.
[[nodiscard]] Result<std::vector<Node>> LoadNodeNames(Database& database);

}  // namespace tide
