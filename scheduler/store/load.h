#pragma once
// Reads the whole state back and proves it sound before anybody acts on it.

#include <functional>
#include <string_view>
#include <vector>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/store/database.h"

namespace tide {

inline constexpr std::string_view kNextJobCounter = "next_job_id";
inline constexpr std::string_view kNextIncidentCounter = "next_incident_id";

// Reads jobs, attempts, tasks, nodes, incidents, counters, and what is still asked of archived
// jobs, each row proved by its checksum; rebuilds what is derived.
//   meanwhile: called before each row, of jobs before each page; its error ends the loading.
//   Errors: kCorrupt, naming the row or the broken invariant.   Cost: O(rows).
[[nodiscard]] Result<ClusterState> LoadState(Database& database,
                                             const std::function<Status()>& meanwhile = {});

// The log after `after_seq`, with what of it is archived, oldest first, at most `limit` events: for
// replays and reports.
struct StoredEvent {
  int64_t seq = 0;
  Event event;
};
[[nodiscard]] Result<std::vector<StoredEvent>> LoadEvents(Database& database,
                                                          int64_t after_seq,
                                                          int64_t limit);

}  // namespace tide
