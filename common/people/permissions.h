#pragma once
// The one table of who may do what: operation × relation to the object → the least role. Routes of
// the API and calls of the scheduler name an operation and ask here.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/people/records.h"

namespace tide {

enum class Operation : uint8_t {
  kSeeJobs,    // name, owner, project, state, size, times
  kSeeInside,  // command, environment, spec, places, checkpoints, reasons
  kReadLogs,
  kSubmitJob,
  kPlanJob,
  kControlJob,  // suspend, resume, cancel, move
  kRunCommand,  // in a task
  kUseSecrets,
  kSeeNodes,
  kControlNode,  // drain, undrain, validate, remove
  kSeeImages,
  kPullImage,
  kSeeFaults,
  kSeeSelf,          // and sign in and out, with what the token may
  kManageOwnTokens,  // of all kinds: sessions, too
  kSeeUsers,
  kManageUsers,  // and their tokens
  kSeeProjects,
  kManageProjects,
  kReadAudit,
};
inline constexpr size_t kOperations = static_cast<size_t>(Operation::kReadAudit) + 1;

// How who asks stands to what it asks about.
enum class Relation : uint8_t {
  kOwn,
  kMember,  // of the object's project, which shows its members' work to each other
  kOther,   // another's, or nobody's, as nodes
};

// The least role that may; kNobody: no role does.
enum class Least : uint8_t {
  kViewer,
  kUser,
  kOperator,
  kAdmin,
  kNobody,
};

struct Permission {
  Operation operation;
  std::string_view name;  // "jobs.submit", in the audit and in documents
  std::string_view verb;  // "submit jobs", in refusals
  Scope scope;            // that a token needs
  Least own;
  Least member;
  Least other;
  bool looks_inside = false;  // a look at another's is recorded
  bool by_job = false;        // a job's own token may, about that job
};

// All rows, in the order of Operation.
[[nodiscard]] std::span<const Permission> PermissionTable();
[[nodiscard]] const Permission& PermissionOf(Operation operation);

// Who asks: a user, by one of its tokens.
struct Actor {
  std::string user;
  Role role = Role::kViewer;
  uint32_t scopes = 0;
  uint64_t token = 0;  // its number
  uint64_t job = 0;    // whose own token it is; 0 = a user's
};

[[nodiscard]] bool IsAllowed(Role role, uint32_t scopes, Operation operation, Relation relation);
// Errors: kPermissionDenied, saying what would be needed.
//   owner: of the object, for the message; "" = nobody.
[[nodiscard]] Status CheckAllowed(const Actor& actor,
                                  Operation operation,
                                  Relation relation,
                                  std::string_view owner = {});

}  // namespace tide
