#pragma once
// SQLite: the embedded default. Write-ahead log, synchronous=FULL: a commit that returned survives
// a power cut.
// Invariants:
//  1 with SqliteAccess::kExclusive at most one such object exists per file on this machine (flock
//    on "<path>.lock", which names the holder's pid and is let go by the kernel when it dies).
//  2 the file is new or Tide's own (application_id), never another program's.

#include <memory>
#include <string>

#include "scheduler/store/database.h"

namespace tide {

enum class SqliteAccess {
  kExclusive,  // a scheduler
  kShared,     // a reader beside it: reports, tests
};

// Opens `path`, creating it when missing (mode 0600).
//   Errors: kConflict (in use by another scheduler, another program's file), kNewerSchema,
//   kCorrupt (damaged, not a database), kStorage (no permission, no space, no such folder).
[[nodiscard]] Result<std::unique_ptr<Database>> OpenSqlite(
    const std::string& path, SqliteAccess access = SqliteAccess::kExclusive);

}  // namespace tide
