#pragma once
// Loads a dump into an empty store, in one transaction: everything of it, or nothing.
// A dump of an older schema is loaded into that schema, and then migrated like the store it was
// taken from would be; so every dump of a released schema loads for ever.
//
// What happened after the backup is gone here, but not outside: agents have obeyed later terms, and
// people and tasks know later jobs. So that nothing is mistaken for what it is not:
//  1 the next leader's term is above every term that this store, the dump or `least_term` tell of,
//    and kTermMargin above the clock, which terms follow (lease.h).
//  2 the next job's number is `skip_job_ids` above the dump's.

#include <cstdint>
#include <string>

#include "common/base/time.h"
#include "scheduler/admin/dump_file.h"
#include "scheduler/store/database.h"

namespace tide::admin {

// Takeovers, of a scheduler that ended again and again, by which terms may have run ahead of the
// clock (one in a second, for a day).
inline constexpr int64_t kTermMargin = 86'400;

struct RestoreOptions {
  Instant now;
  uint64_t skip_job_ids = 0;
  int64_t least_term = 0;  // an agent has seen it; 0 = none known
  bool accept_snapshot = false;
};

struct RestoreSummary {
  DumpHeader header;
  int schema = 0;  // of the store now
  RowCounts rows;
  uint64_t next_job_id = 0;
  int64_t term = 0;
};

//   Errors: kCorrupt (the dump), kNewerSchema (dump or store), kAlreadyExists (the store is not
//   empty), kNotLeader (a scheduler uses it), kInvalidArgument (a snapshot), those of the database.
[[nodiscard]] Result<RestoreSummary> Restore(Database& database,
                                             DumpReader& dump,
                                             const RestoreOptions& options);

}  // namespace tide::admin
