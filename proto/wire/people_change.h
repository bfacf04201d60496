#pragma once
// One ChangePeopleRequest: who may, and what it changes.

#include "common/base/result.h"
#include "common/people/people_registry.h"
#include "tide/v1/people.pb.h"

namespace tide {

// What a change is, for the permission and the audit.
struct PeopleOperation {
  Operation operation = Operation::kManageUsers;
  std::string object = {};  // "user ann", "token 7"
  std::string owner = {};   // "" = nobody's
  std::string detail = {};  // what is done to it: "add as operator"
  bool by_api = false;      // the API itself asks, for one who has no token yet
};
// Errors: kInvalidArgument for a request that says nothing, or something of a later release.
[[nodiscard]] Result<PeopleOperation> DescribeChange(const tide::v1::ChangePeopleRequest& request,
                                                     const Directory& people);

// Does it; fills in what was changed. Errors: those of the registry; kPermissionDenied for a token
// that could do more than the one by which it is asked for.
//   actor: who asks, where it is not the API itself.
[[nodiscard]] Status ApplyChange(const tide::v1::ChangePeopleRequest& request,
                                 const Actor& actor,
                                 Instant now,
                                 PeopleRegistry& people,
                                 tide::v1::ChangePeopleResponse& response);

}  // namespace tide
