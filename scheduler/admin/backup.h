#pragma once
// Writes a store's tables into a dump, as they are at one moment, while a scheduler may go on.

#include <string>

#include "common/base/time.h"
#include "scheduler/admin/dump_file.h"
#include "scheduler/store/database.h"

namespace tide::admin {

struct DumpOptions {
  DumpKind kind = DumpKind::kBackup;
  bool with_commands = false;  // a snapshot keeps jobs' command lines
  Instant now;
  std::string version;  // of this program
};

struct DumpSummary {
  int schema = 0;
  RowCounts rows;
};

// Reads everything in one transaction, a few hundred rows at a time.
//   Errors: kNotFound (no scheduler has used this database), kNewerSchema, kCorrupt (a row is
//   damaged; a snapshot has it as it is), those of the database and of the file. The file is there
//   only when there is none.
[[nodiscard]] Result<DumpSummary> WriteDump(Database& database,
                                            DumpWriter& file,
                                            const DumpOptions& options);

}  // namespace tide::admin
