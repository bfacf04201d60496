#pragma once
// Users, projects and tokens, as the store keeps them. Numbers are given once and never again: what
// belonged to a user who is gone is not another's who has the name now.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace tide {

// Each role may do what the ones before it may.
enum class Role : uint8_t {
  kViewer,    // read
  kUser,      // submit; control own jobs
  kOperator,  // control every job and node
  kAdmin,     // change users, projects, tokens of others
};

struct User {
  uint64_t number = 0;
  std::string name;
  Role role = Role::kUser;
  uint32_t uid = 0;            // that its jobs run as; 0 = as the node's agent finds out
  std::vector<uint32_t> gids;  // with uid: its groups, the first is that of its files
  std::string project;         // of jobs that name none
  Instant created_at;
  bool removed = false;
  bool operator==(const User&) const = default;
};

struct Member {
  std::string user;
  int32_t max_class = 10;  // the highest that its jobs may ask for here: normal
  bool exec = true;        // may it run commands in its own tasks here
  bool operator==(const Member&) const = default;
};

struct Project {
  uint64_t number = 0;
  std::string name;
  bool visible = false;  // members see the inside of each other's jobs
  std::vector<Member> members;
  Instant created_at;
  bool removed = false;
  bool operator==(const Project&) const = default;
};

// What a token may be used for, bits of Token::scopes.
enum class Scope : uint8_t {
  kRead = 1,
  kJobs = 2,
  kNodes = 4,
  kAdmin = 8,
};
inline constexpr uint32_t kAllScopes = 15;

enum class TokenKind : uint8_t {
  kToken,    // of a program or a command line
  kSession,  // of a browser
  kCode,     // signs a browser in, once
};

struct Token {
  uint64_t number = 0;
  std::string user;
  TokenKind kind = TokenKind::kToken;
  std::string label;   // its owner's word for it
  std::string sha256;  // of its secret, 64 hex digits
  uint32_t scopes = kAllScopes;
  Instant created_at;
  Instant expires_at = Instant::Never();
  Instant used_at = {};  // about; not set = never
  // The number of what a session or code was made of, with which it ends; 0 = nothing, or a token.
  // The scheduler's alone: the API is not told.
  uint64_t maker = 0;
  bool removed = false;
  bool operator==(const Token&) const = default;
};

// "operator", "jobs", "session".
[[nodiscard]] std::string_view RoleName(Role role);
[[nodiscard]] std::optional<Role> ParseRole(std::string_view name);
[[nodiscard]] std::string_view TokenKindName(TokenKind kind);
[[nodiscard]] std::string_view ScopeName(Scope scope);
// "read,jobs"; the bits of all names, nothing where one is unknown.
[[nodiscard]] std::string ScopesText(uint32_t scopes);
[[nodiscard]] std::optional<uint32_t> ParseScopes(std::string_view names);

}  // namespace tide
