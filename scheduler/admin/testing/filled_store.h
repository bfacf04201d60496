#pragma once
// Stores with something in them, and looks at all of it.

#include <map>
#include <string>

#include "scheduler/admin/backup.h"
#include "scheduler/admin/restore.h"
#include "scheduler/store/testing/databases.h"
#include "scheduler/store/testing/temp_dir.h"

namespace tide::admin::testing {

inline const Instant kNow = Instant::FromUnixNanos(1'800'000'000'000'000'000);

// What a scheduler leaves behind after so many random turns; its lease is given up.
void Fill(tide::testing::TestDatabase& test, uint64_t seed, int turns);

// By table: columns and rows, in order of the primary key. Nothing of tables that are not there.
using Contents = std::map<std::string, SqlRows>;
[[nodiscard]] Contents ContentsOf(Database& database);
// The same but for `leases`, which a restore changes.
[[nodiscard]] Contents WithoutLease(Contents contents);

// Fails the test where these fail.
void Backup(Database& database, const std::string& path, const DumpOptions& options = {});
RestoreSummary MustRestore(Database& database,
                           const std::string& path,
                           const RestoreOptions& options = {kNow});
[[nodiscard]] Result<RestoreSummary> TryRestore(Database& database,
                                                const std::string& path,
                                                const RestoreOptions& options = {kNow});

// Has nobody made tables in it?
[[nodiscard]] bool IsUntouched(Database& database);

}  // namespace tide::admin::testing

namespace tide {
// Catch prints what differs by these.
bool operator==(const SqlRows& a, const SqlRows& b);
}  // namespace tide
