#include "agent/identity/identities.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

TEST_CASE("one owner for everybody") {
  Identities identities(Owner{20017, 20018, {20019}, "/people/x"});
  CHECK(identities.Find("ada", "n1").value() == Owner{20017, 20018, {20019}, "/people/x"});
  CHECK(identities.Find("", "n1").value().uid == 20017);
}

TEST_CASE("the account of a user's name is asked for, and never one of the system") {
  if (::geteuid() != 0) {
    WARN("only root becomes others");
    return;
  }
  Identities identities;
  const auto nobody = identities.Find("nobody", "n1");
  REQUIRE(nobody);
  const passwd* entry = ::getpwnam("nobody");
  REQUIRE(entry != nullptr);
  CHECK(nobody->uid == entry->pw_uid);
  CHECK(nobody->home == entry->pw_dir);
  CHECK(std::ranges::count(nobody->groups, entry->pw_gid) == 1);
  CHECK(identities.Find("nobody", "n1") == nobody);
  for (const char* name : {"root", "daemon"}) {
    const auto refused = identities.Find(name, "n1");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  }
  for (const char* name : {"", "no-such-person", "../etc", "a:b", "a\nb", "0"}) {
    const auto refused = identities.Find(name, "n1");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tide::agent
