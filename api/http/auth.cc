#include "api/http/auth.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"
#include "common/digest/sha256.h"

namespace tide::api {
namespace {

constexpr int64_t kMinuteNanos = 60'000'000'000;
constexpr size_t kMaxWrongCodesPerMinute = 20;
constexpr size_t kMaxSessions = 1000;
constexpr std::string_view kHowToSignIn =
    "send `Authorization: Bearer TOKEN`, or open the sign-in link that `tide dev` prints; "
    "an admin adds tokens to the file given by --token-file";

std::optional<Role> ParseRole(std::string_view word) {
  for (const Role role : {Role::kViewer, Role::kUser, Role::kOperator, Role::kAdmin}) {
    if (RoleName(role) == word) {
      return role;
    }
  }
  return std::nullopt;
}

struct LoginCode {
  std::string code;
  int64_t expires_unix = 0;
  std::string user;
};

std::optional<LoginCode> ParseLoginCode(const std::string& text) {
  std::istringstream in(text);
  LoginCode parsed;
  if (!(in >> parsed.code >> parsed.expires_unix >> parsed.user)) {
    return std::nullopt;
  }
  return parsed;
}

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

Result<std::vector<TokenEntry>> LoadTokens(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return FailErrno("cannot open " + path, errno);
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                path + " can be read by others; run `chmod 600 " + path + "`");
  }
  TIDE_ASSIGN(const std::string text, ReadFile(path, 4U << 20U));
  std::vector<TokenEntry> tokens;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string hash;
    std::string user;
    std::string role_word;
    words >> hash >> user >> role_word;
    if (hash.empty() || hash.front() == '#') {
      continue;
    }
    const auto role = ParseRole(role_word);
    const bool is_hash =
        hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!role || !is_hash) {
      return Fail(ErrorCode::kInvalidArgument,
                  path + ":" + std::to_string(number) +
                      ": want `<sha256 in 64 lower-case hex digits> <user> "
                      "<viewer|user|operator|admin>`");
    }
    tokens.push_back({hash, {user, *role}});
  }
  return tokens;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomHex(size_t bytes) {
  std::vector<unsigned char> data(bytes);
  TIDE_CHECK(RAND_bytes(data.data(), static_cast<int>(bytes)) == 1,
             "the system's random generator answers");
  return Hex(data.data(), data.size());
}

std::string CookieValue(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    std::string_view pair = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (pair.starts_with(' ')) {
      pair.remove_prefix(1);
    }
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return std::string(pair.substr(equals + 1));
    }
  }
  return {};
}

std::string HostName(std::string_view authority) {
  if (authority.starts_with('[')) {
    return std::string(authority.substr(1, authority.find(']') - 1));
  }
  return std::string(authority.substr(0, authority.find(':')));
}

Authenticator::Authenticator(std::vector<TokenEntry> tokens, std::string login_code_file)
    : tokens_(std::move(tokens)), login_code_file_(std::move(login_code_file)) {}

Result<Identity> Authenticator::FromToken(std::string_view token) const {
  const std::string hash = Sha256Hex(token);
  const Identity* found = nullptr;
  // All entries are compared, so that the time says nothing about which one matched.
  for (const TokenEntry& entry : tokens_) {
    if (EqualInConstantTime(entry.sha256_hex, hash)) {
      found = &entry.who;
    }
  }
  if (found == nullptr) {
    return Fail(ErrorCode::kUnauthenticated, "unknown token; " + std::string(kHowToSignIn));
  }
  return *found;
}

Result<Identity> Authenticator::FromSession(std::string_view cookie) const {
  if (cookie.empty()) {
    return Fail(ErrorCode::kUnauthenticated, std::string(kHowToSignIn));
  }
  const std::string hash = Sha256Hex(cookie);
  const std::scoped_lock lock(mutex_);
  const auto it = sessions_.find(hash);
  if (it == sessions_.end() || it->second.expires_at < MonotonicNanos()) {
    return Fail(ErrorCode::kUnauthenticated,
                "the session has ended; sign in again: " + std::string(kHowToSignIn));
  }
  return it->second.who;
}

Result<Authenticator::Session> Authenticator::Login(std::string_view code) {
  const std::scoped_lock lock(mutex_);
  const int64_t now = MonotonicNanos();
  std::erase_if(wrong_codes_, [now](int64_t at) { return now - at > kMinuteNanos; });
  if (wrong_codes_.size() >= kMaxWrongCodesPerMinute) {
    return Fail(ErrorCode::kExhausted, "too many wrong sign-in codes; wait a minute");
  }
  const auto text = login_code_file_.empty() ? Result<std::string>(std::string())
                                             : ReadFile(login_code_file_, 4096);
  const auto parsed = text ? ParseLoginCode(*text) : std::nullopt;
  const bool right = parsed && EqualInConstantTime(parsed->code, code) &&
                     parsed->expires_unix > SystemNow().unix_nanos() / 1'000'000'000;
  if (!right || ::unlink(login_code_file_.c_str()) != 0) {
    wrong_codes_.push_back(now);
    return Fail(ErrorCode::kUnauthenticated,
                "this sign-in code is wrong, used or too old; each works once for a short time");
  }
  std::erase_if(sessions_, [now](const auto& entry) { return entry.second.expires_at < now; });
  if (sessions_.size() >= kMaxSessions) {
    return Fail(ErrorCode::kExhausted, "too many open sessions; restart tide-api to end them");
  }
  Session session{RandomHex(32), {parsed->user, RoleOf(parsed->user)}};
  sessions_[Sha256Hex(session.cookie)] = {session.who, now + kSessionSeconds * 1'000'000'000};
  return session;
}

Role Authenticator::RoleOf(const std::string& user) const {
  const auto it = std::ranges::find_if(
      tokens_, [&user](const TokenEntry& entry) { return entry.who.user == user; });
  return it == tokens_.end() ? Role::kViewer : it->who.role;
}

}  // namespace tide::api
