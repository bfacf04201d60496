#pragma once
// Who calls. Tokens are kept hashed; the browser gets a session for a one-time code.
// Thread rule: all functions may be called from any thread.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace tide::api {

// Each role may do what the ones before it may.
enum class Role {
  kViewer,    // read
  kUser,      // submit; control own jobs
  kOperator,  // control every job and node
  kAdmin
};

[[nodiscard]] std::string_view RoleName(Role role);

struct Identity {
  std::string user;
  Role role = Role::kViewer;
};

struct TokenEntry {
  std::string sha256_hex;
  Identity who;
};

// Reads lines "<sha256 hex> <user> <role>"; `#` starts a comment. The file must belong to its
// owner alone. Errors: kNotFound, kSystem, kPermissionDenied, kInvalidArgument with the line.
[[nodiscard]] Result<std::vector<TokenEntry>> LoadTokens(const std::string& path);

// Takes the same time wherever the texts differ.
[[nodiscard]] bool EqualInConstantTime(std::string_view a, std::string_view b);
// 2 * bytes hex digits from the system's generator.
[[nodiscard]] std::string RandomHex(size_t bytes);
// Value of cookie `name` in a Cookie header, or "".
[[nodiscard]] std::string CookieValue(std::string_view header, std::string_view name);
// "localhost" of "localhost:7070", "::1" of "[::1]:7070".
[[nodiscard]] std::string HostName(std::string_view authority);

class Authenticator {
 public:
  Authenticator(std::vector<TokenEntry> tokens, std::string login_code_file);

  // Errors: kUnauthenticated, with how to sign in.
  [[nodiscard]] Result<Identity> FromToken(std::string_view token) const;
  [[nodiscard]] Result<Identity> FromSession(std::string_view cookie) const;

  struct Session {
    std::string cookie;
    Identity who;
  };
  // Spends the code: the file is gone before a session exists.
  // Errors: kUnauthenticated, kExhausted after many wrong codes.
  [[nodiscard]] Result<Session> Login(std::string_view code);

  static constexpr int64_t kSessionSeconds = 12 * 3600;

 private:
  struct Kept {
    Identity who;
    int64_t expires_at = 0;  // monotonic ns
  };
  [[nodiscard]] Role RoleOf(const std::string& user) const;

  const std::vector<TokenEntry> tokens_;
  const std::string login_code_file_;
  mutable std::mutex mutex_;
  std::map<std::string, Kept> sessions_;  // by sha256 of the cookie
  std::vector<int64_t> wrong_codes_;      // when, monotonic ns
};

}  // namespace tide::api
