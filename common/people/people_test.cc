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
