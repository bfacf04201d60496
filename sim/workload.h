#pragma once
// What is made of a trace before it is replayed.

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "sim/trace.h"

namespace tide::sim {

// Who submits the jobs: many public traces do not say.
struct UserRule {
  enum class Kind : uint8_t {
    kJob,     // each job has a user of its own
    kColumn,  // as the trace says
    kCount,   // `count` users, drawn for each job
  };
  Kind kind = Kind::kJob;
  uint64_t count = 0;
  bool operator==(const UserRule&) const = default;
};

// "job", "column" or a number from 1 to 1,000,000. Errors: kInvalidArgument.
[[nodiscard]] Result<UserRule> ParseUserRule(const std::string& text);

// Whose projects the jobs are in.
enum class ProjectRule : uint8_t {
  kNone,    // everybody's
  kColumn,  // as the trace says by `group`; "-" = everybody's
};

// "none" or "column". Errors: kInvalidArgument.
[[nodiscard]] Result<ProjectRule> ParseProjectRule(const std::string& text);

// Which jobs save their work: the others lose all of it when they are asked to leave.
struct SavesRule {
  double share = 1;
  int64_t every_s = 1800;  // between saves of those that do; 0 = only when asked
  bool operator==(const SavesRule&) const = default;
};

// "share:0.7,every:30m"; either may be left out. Errors: kInvalidArgument.
[[nodiscard]] Result<SavesRule> ParseSavesRule(const std::string& text);

// Draws for each job whether it saves.
void AssignSaves(Trace& trace, const SavesRule& rule, uint64_t seed);

// Names the project of every job.
void AssignProjects(Trace& trace, ProjectRule rule);

// Names the user of every job.
void AssignUsers(Trace& trace, const UserRule& rule, uint64_t seed);

// Divides submit times by `factor` > 0, rounded down: the same jobs in less time.
void Compress(Trace& trace, double factor);

}  // namespace tide::sim
