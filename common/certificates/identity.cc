#include "common/certificates/identity.h"

#include <algorithm>
#include <array>

namespace tide::certificates {
namespace {

constexpr std::string_view kDomain = "spiffe://tide/";
constexpr std::array kRoles = {Role::kScheduler, Role::kAgent, Role::kApi};
constexpr size_t kNodeNameMax = 253;

bool IsNodeName(std::string_view text) {
  return !text.empty() && text.size() <= kNodeNameMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

std::string_view ToText(Role role) {
  switch (role) {
    case Role::kScheduler:
      return "scheduler";
    case Role::kAgent:
      return "agent";
    case Role::kApi:
      return "api";
  }
  return "";
}

Result<Role> RoleFromText(std::string_view text) {
  const auto* const role =
      std::ranges::find_if(kRoles, [text](Role each) { return ToText(each) == text; });
  if (role == kRoles.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(text) + "\" is no role; expected scheduler, agent or api");
  }
  return *role;
}

std::string ToSpiffeId(const Identity& identity) {
  std::string id = std::string(kDomain) + std::string(ToText(identity.role));
  return identity.node.empty() ? id : id + "/" + identity.node;
}

Result<Identity> IdentityFromSpiffeId(std::string_view text) {
  if (!text.starts_with(kDomain)) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(text) + "\" is no SPIFFE ID of the trust domain tide");
  }
  const std::string_view path = text.substr(kDomain.size());
  const size_t slash = path.find('/');
  Identity identity;
  TIDE_ASSIGN(identity.role, RoleFromText(path.substr(0, slash)));
  if (slash != std::string_view::npos) {
    identity.node = path.substr(slash + 1);
  }
  TIDE_TRY(CheckIdentity(identity));
  return identity;
}

std::string Describe(const Identity& identity) {
  const std::string role(ToText(identity.role));
  return identity.node.empty() ? role : role + " of " + identity.node;
}

Status CheckIdentity(const Identity& identity) {
  if (identity.role != Role::kAgent) {
    return identity.node.empty() ? Status()
                                 : Fail(ErrorCode::kInvalidArgument,
                                        "a certificate of a " + std::string(ToText(identity.role)) +
                                            " names no node; only that of an agent does");
  }
  if (!IsNodeName(identity.node)) {
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + identity.node +
                    "\" is no node's name for a certificate: expected 1 to 253 letters, digits, "
                    "'-', '_' and '.'");
  }
  return {};
}

}  // namespace tide::certificates
