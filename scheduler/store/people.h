#pragma once
// The tables of users, projects and tokens, and the audit. They are beside the model: the core
// knows users and projects by name alone.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "common/people/people_registry.h"
#include "scheduler/store/database.h"

namespace tide {

inline constexpr std::string_view kAuditDone = "done";  // AuditEntry::outcome

// An entry of the audit: an operation that was done or refused.
struct AuditEntry {
  uint64_t seq = 0;
  Instant at;
  std::string user;
  uint64_t token = 0;     // its number
  std::string address;    // where it came from
  std::string operation;  // "jobs.control"
  std::string object;     // "j-12", "node a-n1"
  std::string owner;      // of the object, "" = nobody
  std::string outcome;    // "done" or the name of an error
  std::string detail;     // the reason that was given, or that of the refusal
  std::string request_id;
};

// Inside a transaction. A record that says `removed` goes; its number is not given again.
[[nodiscard]] Status WritePeopleRecord(Database& database, const PeopleRecord& record);
[[nodiscard]] Status WriteAuditEntry(Database& database, const AuditEntry& entry);

// Errors: kCorrupt, naming the row; those of Run.
[[nodiscard]] Result<StoredPeople> LoadPeople(Database& database);
// Entries that are asked for.
struct AuditQuery {
  uint64_t from = 1;           // its number, and those after it
  uint64_t most = 1000;        // of the answer
  Instant since = {};          // not set = from the first on
  Instant until = {};          // not set = up to the last
  std::string user = {};       // "" = anybody's
  std::string operation = {};  // "" = any
};
// In their order.
[[nodiscard]] Result<std::vector<AuditEntry>> ReadAudit(Database& database,
                                                        const AuditQuery& query);

}  // namespace tide
