#pragma once
// Which jobs that are not over save in which folder that their users chose (checkpoint.dir).
// Folders that agents choose are each job's own.

#include <map>
#include <set>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "scheduler/core/model/job.h"

namespace tide {

struct ClusterState;

using CheckpointFolders = std::map<std::string, std::set<JobId>>;

// Puts the job down where it saves, or takes it off once it is over.
void IndexCheckpointFolder(CheckpointFolders& folders, const Job& job);

// Checks whether a submission may save in its folder: while another job saves there, only one of
// the same user and name, which replaces it, or one that runs after it. Another user's job counts
// once it has run: until then nobody knows that it may save there at all, and whoever names the
// folder of somebody else could keep its owner from it.
//   Errors: kConflict naming that job.   Cost: O(jobs of the folder + jobs that it runs after).
[[nodiscard]] Status CheckCheckpointFolder(const ClusterState& state,
                                           const JobSpec& spec,
                                           const std::string& user);

}  // namespace tide
