#pragma once
// One function for each kind of row: the readable columns and `data`. Called inside a transaction.
// Order matters to foreign keys: nodes, jobs, attempts, tasks, incidents, events.

#include <cstdint>

#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"
#include "scheduler/store/database.h"

namespace tide {

// Ids and counts are far below 2^63.
[[nodiscard]] inline int64_t SqlInt(uint64_t value) {
  return static_cast<int64_t>(value);
}

// As text for people; NULL where it is unset.
[[nodiscard]] SqlValue TimeValue(Instant at);

//   occupant: the job whose task is on the node, 0 = none.
[[nodiscard]] Status WriteNode(Database& database, const Node& node, JobId occupant);
[[nodiscard]] Status WriteJob(Database& database, const Job& job);
[[nodiscard]] Status WriteAttempt(Database& database, const Job& job, const Attempt& attempt);
//   index: of the task within `attempt`.
[[nodiscard]] Status WriteTask(Database& database,
                               JobId job,
                               const Attempt& attempt,
                               uint32_t index);
// Deletes the row of one that the state has forgotten.
[[nodiscard]] Status WriteIncident(Database& database, const ClusterState& state, IncidentId id);
// Appends to the log, and the verdicts of a validation to its history.
[[nodiscard]] Status WriteEvent(Database& database, int64_t seq, const Event& event);
[[nodiscard]] Status WriteCounter(Database& database, std::string_view name, uint64_t value);

}  // namespace tide
