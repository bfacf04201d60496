#pragma once
// Finds out who calls: by a token, or by the session of a browser, a token in a cookie. Both are
// looked up in what the scheduler has shown; the API keeps nothing of its own, so that sessions
// survive its restarts and end with a revocation.
// Thread rule: all functions may be called from any thread.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "api/http/guesses.h"
#include "api/upstream/upstream.h"
#include "api/view/view.h"
#include "common/people/directory.h"

namespace tide::api {

// Value of cookie `name` in a Cookie header, or "".
[[nodiscard]] std::string CookieValue(std::string_view header, std::string_view name);
// "localhost" of "localhost:7070", "::1" of "[::1]:7070".
[[nodiscard]] std::string HostName(std::string_view authority);

// The caller, and all users that there are, by one view.
struct Identity {
  Actor actor;
  std::shared_ptr<const Directory> people;
};

class Authenticator {
 public:
  Authenticator(const ViewStore& store, Scheduler& scheduler);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // Finds out who shows this text, of a header or a cookie; "" = neither.
  //   address: where the request came from; who guesses from there is slowed.
  //   Errors: kUnauthenticated, with how to sign in; kExhausted after many wrong ones;
  //   kUnavailable until the scheduler has said who there is.
  [[nodiscard]] Result<Identity> FromToken(std::string_view text, const std::string& address);

  struct Session {
    std::string cookie;
    v1::Token token;
  };
  // Spends a code that `tide ui` or `tide dev` made. Errors: as FromToken.
  [[nodiscard]] Result<Session> SpendCode(std::string_view code, const v1::Caller& caller);
  // Makes a session of one who is signed in by a token.
  [[nodiscard]] Result<Session> Begin(const Actor& actor, const v1::Caller& caller);

  static constexpr int64_t kSessionSeconds = 12 * 3600;

 private:
  void NoteUse(uint64_t token);
  void FlushUses();

  const ViewStore& store_;
  Scheduler& scheduler_;
  Guesses guesses_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::map<uint64_t, int64_t> uses_;  // by token, unix ns; not told to the scheduler yet
  std::thread flusher_;               // last: it uses the members above
};

}  // namespace tide::api
