#include <catch2/catch.hpp>

#include "common/people/directory.h"

namespace tide {
namespace {

TEST_CASE("the table has a row for each operation, and no role may less than a lower one",
          "[people]") {
  REQUIRE(PermissionTable().size() == kOperations);
  for (const Permission& row : PermissionTable()) {
    INFO(row.name);
    for (const Relation relation : {Relation::kOwn, Relation::kMember, Relation::kOther}) {
      bool before = false;
      for (const Role role : {Role::kViewer, Role::kUser, Role::kOperator, Role::kAdmin}) {
        const bool allowed = IsAllowed(role, kAllScopes, row.operation, relation);
        CHECK((allowed || !before));
        before = allowed;
        CHECK_FALSE(IsAllowed(role, 0, row.operation, relation));
      }
    }
    // Who may do it to another's may do it to his own.
    CHECK(row.own <= row.member);
    CHECK(row.member <= row.other);
  }
}

TEST_CASE("a refusal says what would be needed", "[people]") {
  const Actor vera{"vera", Role::kViewer, kAllScopes, 1};
  CHECK_THAT(CheckAllowed(vera, Operation::kSubmitJob, Relation::kOwn).error().message,
             Catch::Contains("vera (viewer) may not submit jobs: this needs the role user"));
  const Actor reader{"ann", Role::kUser, static_cast<uint32_t>(Scope::kRead), 1};
  CHECK_THAT(CheckAllowed(reader, Operation::kSubmitJob, Relation::kOwn).error().message,
             Catch::Contains("--scopes read,jobs"));
}

TEST_CASE("a job's token is about that job, and changes nothing", "[people]") {
  const Actor job{"ann", Role::kViewer, static_cast<uint32_t>(Scope::kRead), 0, 12};
  for (const Permission& row : PermissionTable()) {
    INFO(row.name);
    CHECK(CheckAllowed(job, row.operation, Relation::kOwn).has_value() == row.by_job);
    CHECK_FALSE(CheckAllowed(job, row.operation, Relation::kMember));
    CHECK_FALSE(CheckAllowed(job, row.operation, Relation::kOther));
    CHECK((!row.by_job || row.scope == Scope::kRead));
  }
}

TEST_CASE("texts of jobs' tokens", "[people]") {
  const std::string text = MakeJobTokenText(12, std::string(64, 'a'));
  CHECK(text.starts_with("tide_j-12_"));
  CHECK(ParseJobTokenText(text)->number == 12);
  CHECK_FALSE(ParseTokenText(text));
  CHECK_FALSE(ParseJobTokenText(MakeTokenText(12, std::string(64, 'a'))));
}

TEST_CASE("texts of tokens", "[people]") {
  const std::string secret(64, 'a');
  CHECK(ParseTokenText(MakeTokenText(12, secret))->number == 12);
  for (const std::string& text : {std::string(),
                                  std::string("tide_"),
                                  "tide_1_" + secret + "a",
                                  "tide_1_" + secret.substr(1),
                                  "tide__" + secret,
                                  "tide_-1_" + secret,
                                  "tide_99999999999999999999999_" + secret,
                                  "Tide_1_" + secret}) {
    CHECK_FALSE(ParseTokenText(text));
  }
}

TEST_CASE("scopes and roles by name", "[people]") {
  CHECK(ParseScopes("read,admin") == 9U);
  CHECK(ScopesText(9) == "read,admin");
  CHECK_FALSE(ParseScopes("read,everything"));
  CHECK_FALSE(ParseScopes("read,,jobs"));
  CHECK(ParseRole("operator") == Role::kOperator);
  CHECK_FALSE(ParseRole("root"));
}

TEST_CASE("names of users and projects", "[people]") {
  CHECK(CheckUserName("ann.b-c@d_1"));
  for (const char* name : {"", "-rf", ".ann", "ann b", "ann/b", "änn", "a\nb"}) {
    CHECK_FALSE(CheckUserName(name));
  }
  CHECK_FALSE(CheckUserName(std::string(65, 'a')));
}

}  // namespace
}  // namespace tide
