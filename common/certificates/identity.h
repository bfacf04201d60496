#pragma once
// Says who a program is: the SPIFFE ID among its certificate's alternative names, in the trust
// domain "tide".

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace tide::certificates {

enum class Role : uint8_t {
  kScheduler,
  kAgent,
  kApi
};

struct Identity {
  Role role = Role::kAgent;
  std::string node;  // name of an agent's node; "" for the others

  friend bool operator==(const Identity&, const Identity&) = default;
};

[[nodiscard]] std::string_view ToText(Role role);
// Errors: kInvalidArgument, naming the roles there are.
[[nodiscard]] Result<Role> RoleFromText(std::string_view text);

// "spiffe://tide/agent/n01", "spiffe://tide/scheduler".
[[nodiscard]] std::string ToSpiffeId(const Identity& identity);
// Errors: kInvalidArgument for any other text.
[[nodiscard]] Result<Identity> IdentityFromSpiffeId(std::string_view text);
// "agent of n01", "scheduler".
[[nodiscard]] std::string Describe(const Identity& identity);
// Errors: kInvalidArgument unless only an agent names a node, by letters, digits, '-', '_' and '.'.
[[nodiscard]] Status CheckIdentity(const Identity& identity);

}  // namespace tide::certificates
