#pragma once
// SQLite: the embedded default. Write-ahead log, synchronous=FULL: a commit that returned survives
// a power cut.
// Invariants:
//  1 with kExisting and kExclusive at most one such object exists per file on this machine (flock
//  on
//    "<path>.lock", which names the holder's pid and is let go by the kernel when it dies).
//  2 the file is new or Tide's own (application_id), never another program's.

#include <memory>
#include <string>

#include "scheduler/store/database.h"

namespace tide {

enum class SqliteAccess {
  kExisting,   // a scheduler, on the store that it had before: creates nothing
  kExclusive,  // one that makes its store
  kShared,     // one beside it: tests
  kReader,     // reports, backups: creates nothing, and takes the lock when asked to
};

// Opens `path`, creating it when missing (mode 0600), but not for kExisting and kReader.
//   Errors: kNotLeader (in use by another scheduler), kConflict (another program's file),
//   kNewerSchema, kCorrupt (damaged, not a database), kStorage (no permission, no space, no such
//   folder); where nothing is created kNotFound (no such file, an empty one).
[[nodiscard]] Result<std::unique_ptr<Database>> OpenSqlite(
    const std::string& path, SqliteAccess access = SqliteAccess::kExclusive);

}  // namespace tide
