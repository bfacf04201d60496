#include "scheduler/server/people/project_rules.h"

#include <catch2/catch.hpp>

namespace tide {
namespace {

// ann is in `vision` up to high; `detect` lies below it.
Directory People() {
  Directory people;
  User ann;
  ann.number = 1;
  ann.name = "ann";
  ann.project = "vision";
  people.Put(ann);
  User bob;
  bob.number = 2;
  bob.name = "bob";
  people.Put(bob);
  Project vision;
  vision.number = 1;
  vision.name = "vision";
  vision.members = {{"ann", 30, true}};
  people.Put(vision);
  return people;
}

Policy Tree() {
  Policy policy;
  policy.projects["vision"] = {};
  policy.projects["detect"].parent = "vision";
  return policy;
}

Actor By(const std::string& user, Role role = Role::kUser) {
  return {user, role, kAllScopes, 1};
}

// The error's code; kInternal where there is none.
ErrorCode Refusal(const Actor& owner, const std::string& project, int32_t priority) {
  JobSpec spec;
  spec.project = project;
  spec.priority = priority;
  const Status settled = SettleProject(People(), Tree(), owner, spec);
  return settled ? ErrorCode::kInternal : settled.error().code;
}

TEST_CASE("a job names a project of its owner, and a class up to that of the membership",
          "[people]") {
  constexpr ErrorCode kFine = ErrorCode::kInternal;
  CHECK(Refusal(By("ann"), "vision", 30) == kFine);
  CHECK(Refusal(By("ann"), "detect", 30) == kFine);  // a member above is one here
  CHECK(Refusal(By("ann"), "vision", 40) == ErrorCode::kClassTooHigh);
  CHECK(Refusal(By("ann"), "language", 10) == ErrorCode::kProjectNotMember);
  CHECK(Refusal(By("bob"), "vision", 10) == ErrorCode::kProjectNotMember);
  CHECK(Refusal(By("bob"), "default", 10) == kFine);
  CHECK(Refusal(By("bob"), "default", -1) == kFine);
  CHECK(Refusal(By("bob"), "default", 20) == ErrorCode::kClassTooHigh);
  CHECK(Refusal(By("bob", Role::kOperator), "vision", 50) == kFine);
}

TEST_CASE("a job that names no project is in its owner's", "[people]") {
  JobSpec spec;
  REQUIRE(SettleProject(People(), Tree(), By("ann"), spec));
  CHECK(spec.project == "vision");
  JobSpec other;
  REQUIRE(SettleProject(People(), Tree(), By("bob"), other));
  CHECK(other.project == "default");
}

}  // namespace
}  // namespace tide
