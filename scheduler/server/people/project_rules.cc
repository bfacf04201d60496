#include "scheduler/server/people/project_rules.h"

#include <string>

namespace tide {
namespace {

// The membership that lets `user` name `project`: there, or in the nearest above that has one.
const Member* MembershipOf(const Directory& people,
                           const Policy& policy,
                           std::string project,
                           const std::string& user) {
  for (int depth = 0; depth <= kProjectDepthMax && !project.empty(); ++depth) {
    if (const Member* member = people.FindMember(project, user)) {
      return member;
    }
    const auto above = policy.projects.find(project);
    project = above == policy.projects.end() ? "" : above->second.parent;
  }
  return nullptr;
}

}  // namespace

Status SettleProject(const Directory& people,
                     const Policy& policy,
                     const Actor& owner,
                     JobSpec& spec) {
  const User* user = people.FindUser(owner.user);
  if (spec.project == kDefaultProject && user != nullptr && !user->project.empty()) {
    spec.project = user->project;
  }
  if (owner.role >= Role::kOperator) {
    return {};
  }
  const Member* member = MembershipOf(people, policy, spec.project, owner.user);
  const bool is_default = spec.project == kDefaultProject;
  if (member == nullptr && !is_default) {
    return Fail(ErrorCode::kProjectNotMember,
                owner.user + " is no member of project " + spec.project +
                    "; an admin can change that: `tide project add " + spec.project + " " +
                    owner.user + "`; `tide project list --me` names yours");
  }
  const int32_t most = member == nullptr ? Member().max_class : member->max_class;
  if (spec.priority > most) {
    const std::string way = is_default ? "name a project that allows it with --project"
                                       : "an admin can change that: `tide project add " +
                                             spec.project + " " + owner.user + " --class " +
                                             PriorityName(spec.priority) + "`";
    return Fail(ErrorCode::kClassTooHigh,
                "priority " + PriorityName(spec.priority) + ": " + owner.user + " may ask for " +
                    PriorityName(most) + " at most in project " + spec.project + "; " + way);
  }
  return {};
}

}  // namespace tide
