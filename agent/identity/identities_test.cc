#include "agent/identity/identities.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

TEST_CASE("one owner for everybody") {
  Identities identities(Owner{20017, 20018, {20019}, "/people/x"});
  CHECK(identities.Find({.name = "ada"}, "n1").value() ==
        Owner{20017, 20018, {20019}, "/people/x"});
  CHECK(identities.Find({}, "n1").value().uid == 20017);
}

TEST_CASE("the account of a user's name is asked for, and never one of the system") {
  if (::geteuid() != 0) {
    WARN("only root becomes others");
    return;
  }
  Identities identities;
  const auto nobody = identities.Find({.name = "nobody"}, "n1");
  REQUIRE(nobody);
  const passwd* entry = ::getpwnam("nobody");
  REQUIRE(entry != nullptr);
  CHECK(nobody->uid == entry->pw_uid);
  CHECK(nobody->home == entry->pw_dir);
  CHECK(std::ranges::count(nobody->groups, entry->pw_gid) == 1);
  CHECK(identities.Find({.name = "nobody"}, "n1") == nobody);
  for (const char* name : {"root", "daemon"}) {
    const auto refused = identities.Find({.name = name}, "n1");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  }
  for (const char* name : {"", "no-such-person", "../etc", "a:b", "a\nb", "0"}) {
    const auto refused = identities.Find({.name = name}, "n1");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE("a record says more than the name service, and a pool helps where neither does") {
  if (::geteuid() != 0) {
    WARN("only root becomes others");
    return;
  }
  Identities identities(UidPool{200'000, 200'010});
  const auto recorded = identities.Find({"nobody", 3, 20017, {20100, 20101}}, "n1");
  CHECK(recorded.value() == Owner{20017, 20100, {20100, 20101}, ""});
  CHECK(identities.Find({"nobody", 3, 20017, {}}, "n1")->gid == 20017);
  CHECK(identities.Find({"nobody", 3, 999, {}}, "n1").error().code == ErrorCode::kPermissionDenied);
  CHECK(identities.Find({"nobody", 3, 0, {}}, "n1")->uid == ::getpwnam("nobody")->pw_uid);
  CHECK(identities.Find({"no-such-person", 3, 0, {}}, "n1").value() ==
        Owner{200'003, 200'003, {}, ""});
  CHECK(identities.Find({"no-such-person", 11, 0, {}}, "n1").error().code == ErrorCode::kNotFound);
  CHECK(identities.Find({"no-such-person", 0, 0, {}}, "n1").error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace tide::agent
