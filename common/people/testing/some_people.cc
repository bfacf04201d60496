#include "common/people/testing/some_people.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/digest/sha256.h"

namespace tide::testing {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 6> kUsers = {{
    {"vera", Role::kViewer},
    {"alice", Role::kUser},
    {"ann", Role::kUser},
    {"bob", Role::kUser},
    {"olga", Role::kOperator},
    {"adam", Role::kAdmin},
}};

uint64_t NumberOf(std::string_view user) {
  const auto* found = std::ranges::find(kUsers, user, &decltype(kUsers)::value_type::first);
  return static_cast<uint64_t>(found - kUsers.begin()) + 1;
}

}  // namespace

StoredPeople SomePeople() {
  StoredPeople people;
  for (const auto& [name, role] : kUsers) {
    User user;
    user.number = people.next_user++;
    user.name = name;
    user.role = role;
    people.directory.Put(user);
    Token token;
    token.number = people.next_token++;
    token.user = name;
    token.sha256 = SecretDigest(Sha256Hex(user.name));
    people.directory.Put(token);
  }
  Token code;
  code.number = people.next_token++;
  code.user = "alice";
  code.kind = TokenKind::kCode;
  code.sha256 = SecretDigest(Sha256Hex("code"));
  code.expires_at = Instant::FromUnixNanos(1'000'000'000);
  people.directory.Put(code);
  return people;
}

std::string OldCode() {
  return MakeTokenText(kUsers.size() + 1, Sha256Hex("code"));
}

std::string TokenOf(const std::string& user) {
  return MakeTokenText(NumberOf(user), Sha256Hex(user));
}

}  // namespace tide::testing
