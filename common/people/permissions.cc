#include "common/people/permissions.h"

#include <array>
#include <utility>

namespace tide {
namespace {

using enum Least;

// clang-format off
constexpr std::array kTable = {
    //    operation                    name               verb                                scope          own        member     other      looks by_job
    Permission{Operation::kSeeJobs,         "jobs.see",        "see jobs",                         Scope::kRead,  kViewer,   kViewer,   kViewer,   false, true},
    Permission{Operation::kSeeInside,       "jobs.inside",     "see the inside of jobs",           Scope::kRead,  kViewer,   kUser,     kOperator, true, true},
    Permission{Operation::kReadLogs,        "logs.read",       "read logs",                        Scope::kRead,  kViewer,   kUser,     kOperator, true, true},
    Permission{Operation::kSubmitJob,       "jobs.submit",     "submit jobs",                      Scope::kJobs,  kUser,     kNobody,   kNobody},
    Permission{Operation::kPlanJob,         "jobs.plan",       "plan jobs",                        Scope::kRead,  kUser,     kNobody,   kNobody},
    Permission{Operation::kControlJob,      "jobs.control",    "suspend, resume, cancel or move jobs", Scope::kJobs, kUser,  kOperator, kOperator},
    Permission{Operation::kRunCommand,      "jobs.exec",       "run commands in tasks",            Scope::kJobs,  kUser,     kUser,     kOperator, true},
    Permission{Operation::kUseSecrets,      "secrets",         "list, set or remove secrets",      Scope::kJobs,  kUser,     kNobody,   kNobody},
    Permission{Operation::kSeeNodes,        "nodes.see",       "see nodes",                        Scope::kRead,  kViewer,   kViewer,   kViewer},
    Permission{Operation::kControlNode,     "nodes.control",   "drain, undrain, validate or remove nodes, vouch for them", Scope::kNodes, kOperator, kOperator, kOperator},
    Permission{Operation::kSeeImages,       "images.see",      "see images",                       Scope::kRead,  kViewer,   kViewer,   kViewer},
    Permission{Operation::kPullImage,       "images.pull",     "pull images to nodes",             Scope::kNodes, kOperator, kOperator, kOperator},
    Permission{Operation::kSeeFaults,       "faults.see",      "see faults",                       Scope::kRead,  kViewer,   kViewer,   kViewer},
    Permission{Operation::kSeeSelf,         "self.see",        "sign in and out",          Scope::kRead,  kViewer,   kNobody,   kNobody},
    Permission{Operation::kManageOwnTokens, "tokens.own",      "list, make or revoke tokens",      Scope::kJobs,  kViewer,   kNobody,   kNobody},
    Permission{Operation::kSeeUsers,        "users.see",       "see users",                        Scope::kRead,  kViewer,   kOperator, kOperator},
    Permission{Operation::kManageUsers,     "users.manage",    "change users and their tokens",    Scope::kAdmin, kAdmin,    kAdmin,    kAdmin},
    Permission{Operation::kSeeProjects,     "projects.see",    "see projects",                     Scope::kRead,  kViewer,   kViewer,   kViewer},
    Permission{Operation::kManageProjects,  "projects.manage", "change projects",                  Scope::kAdmin, kAdmin,    kAdmin,    kAdmin},
    Permission{Operation::kReadAudit,       "audit.read",      "read the audit",                   Scope::kAdmin, kAdmin,    kAdmin,    kAdmin},
};
// clang-format on

constexpr bool IsComplete() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (std::to_underlying(kTable[i].operation) != i) {
      return false;
    }
  }
  return kTable.size() == kOperations;
}
static_assert(IsComplete(), "each operation has one row, in the order of the enum");

Least LeastOf(const Permission& row, Relation relation) {
  switch (relation) {
    case Relation::kOwn:
      return row.own;
    case Relation::kMember:
      return row.member;
    case Relation::kOther:
      return row.other;
  }
  return kNobody;
}

bool IsEnough(Role role, Least least) {
  return std::to_underlying(role) >= std::to_underlying(least);
}

std::string Needed(const Permission& row, Relation relation) {
  const Least least = LeastOf(row, relation);
  if (least == kNobody) {
    return "nobody may do that for another";
  }
  return "this needs the role " +
         std::string(RoleName(static_cast<Role>(std::to_underlying(least))));
}

}  // namespace

std::span<const Permission> PermissionTable() {
  return kTable;
}

const Permission& PermissionOf(Operation operation) {
  return kTable.at(std::to_underlying(operation));
}

bool IsAllowed(Role role, uint32_t scopes, Operation operation, Relation relation) {
  const Permission& row = PermissionOf(operation);
  return IsEnough(role, LeastOf(row, relation)) && (scopes & static_cast<uint32_t>(row.scope)) != 0;
}

Status CheckAllowed(const Actor& actor,
                    Operation operation,
                    Relation relation,
                    std::string_view owner) {
  const Permission& row = PermissionOf(operation);
  if (actor.job != 0 && !(row.by_job && relation == Relation::kOwn)) {
    return Fail(
        ErrorCode::kPermissionDenied,
        "the token of a job may see that job alone, its inside and its logs; this one is of "
        "j-" +
            std::to_string(actor.job));
  }
  if (!IsEnough(actor.role, LeastOf(row, relation))) {
    std::string message = actor.user + " (" + std::string(RoleName(actor.role)) + ") may not " +
                          std::string(row.verb);
    if (!owner.empty() && relation != Relation::kOwn) {
      message += " of " + std::string(owner) + ": ask them, or an operator";
    } else {
      message += ": " + Needed(row, relation);
    }
    return Fail(ErrorCode::kPermissionDenied, std::move(message));
  }
  if ((actor.scopes & static_cast<uint32_t>(row.scope)) == 0) {
    return Fail(ErrorCode::kPermissionDenied,
                "this token of " + actor.user + " is for `" + ScopesText(actor.scopes) + "`; to " +
                    std::string(row.verb) + " one with the scope `" +
                    std::string(ScopeName(row.scope)) +
                    "` is needed: `tide token create --scopes " +
                    ScopesText(actor.scopes | static_cast<uint32_t>(row.scope)) + "`");
  }
  return {};
}

}  // namespace tide
