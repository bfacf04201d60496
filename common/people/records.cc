#include "common/people/records.h"

#include <array>

namespace tide {
namespace {

constexpr std::array kRoles = {Role::kViewer, Role::kUser, Role::kOperator, Role::kAdmin};
constexpr std::array kScopes = {Scope::kRead, Scope::kJobs, Scope::kNodes, Scope::kAdmin};

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kUser:
      return "user";
    case Role::kOperator:
      return "operator";
    case Role::kAdmin:
      return "admin";
  }
  return "viewer";
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role role : kRoles) {
    if (RoleName(role) == name) {
      return role;
    }
  }
  return std::nullopt;
}

std::string_view TokenKindName(TokenKind kind) {
  switch (kind) {
    case TokenKind::kToken:
      return "token";
    case TokenKind::kSession:
      return "session";
    case TokenKind::kCode:
      return "code";
  }
  return "token";
}

std::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kRead:
      return "read";
    case Scope::kJobs:
      return "jobs";
    case Scope::kNodes:
      return "nodes";
    case Scope::kAdmin:
      return "admin";
  }
  return "read";
}

std::string ScopesText(uint32_t scopes) {
  std::string text;
  for (const Scope scope : kScopes) {
    if ((scopes & static_cast<uint32_t>(scope)) != 0) {
      text += text.empty() ? "" : ",";
      text += ScopeName(scope);
    }
  }
  return text;
}

std::optional<uint32_t> ParseScopes(std::string_view names) {
  uint32_t scopes = 0;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    uint32_t bit = 0;
    for (const Scope scope : kScopes) {
      bit |= ScopeName(scope) == name ? static_cast<uint32_t>(scope) : 0;
    }
    if (bit == 0) {
      return std::nullopt;
    }
    scopes |= bit;
  }
  return scopes;
}

}  // namespace tide
