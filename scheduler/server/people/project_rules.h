#pragma once
// May this user name that project and class in a job.

#include "common/people/directory.h"
#include "common/spec/job_spec.h"
#include "scheduler/core/policy/policy.h"

namespace tide {

// Fills in the default project of its owner where the spec names none, then checks: a member of the
// project, or of one above it in the policy's tree, may name it, up to the class of that
// membership. Project `default` is everybody's, up to `normal`. Operators and admins may name all.
//   Errors: kProjectNotMember, kClassTooHigh, saying who can change it.
[[nodiscard]] Status SettleProject(const Directory& people,
                                   const Policy& policy,
                                   const Actor& owner,
                                   JobSpec& spec);

}  // namespace tide
