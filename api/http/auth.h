#pragma once
// Finds out who calls: by a token, of a user or of a job, by the session of a browser, a token in a
// cookie, or by the word of a trusted proxy. All are looked up in what the scheduler has shown; the
// API keeps nothing of its own, so that sessions survive its restarts and end with a revocation.
// Thread rule: all functions may be called from any thread.

#include <chrono>
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

// Says whether what a request was let in with still holds. For what lasts: streams, logs, commands.
class StillSignedIn {
 public:
  StillSignedIn(const ViewStore& store, const Actor& actor);

  // Looks a few times a second; other calls return what it saw last.
  [[nodiscard]] bool Check();

 private:
  [[nodiscard]] bool Look() const;
  // The digest of the token of the actor's job, while it has one.
  [[nodiscard]] std::string JobDigest() const;

  const ViewStore& store_;
  const Actor actor_;
  const std::string job_digest_;
  int64_t look_at_ns_ = 0;
  bool holds_ = true;
};

class Authenticator {
 public:
  //   tell_every: how often the scheduler is told of uses and of wrong tokens.
  Authenticator(const ViewStore& store,
                Scheduler& scheduler,
                std::chrono::milliseconds tell_every = std::chrono::seconds(30));
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
  // Makes a session of one who is signed in by a token. Errors: kPermissionDenied for a job's
  // token, which is to see that job and to end with it.
  [[nodiscard]] Result<Session> Begin(const Actor& actor, const v1::Caller& caller);
  // Finds the user that a trusted proxy has signed in, by a session that the scheduler keeps for
  // all that the proxy passes on for this user; makes one where there is none. May wait.
  //   caller: with the user's name and no token.
  //   Errors: kPermissionDenied: there is no such user; kUnavailable; those of Begin.
  [[nodiscard]] Result<Identity> FromProxy(const v1::Caller& caller);

  static constexpr int64_t kSessionSeconds = 12 * 3600;

 private:
  [[nodiscard]] Result<ViewPtr> NeedPeople() const;
  [[nodiscard]] Result<Session> Issue(v1::IssueToken issue, const v1::Caller& caller);
  // Returns the user by a session of the proxy, where one is known to hold.
  [[nodiscard]] Result<Actor> ProxySession(const Directory& people, const std::string& user);
  [[nodiscard]] Result<uint64_t> FindOrBeginProxySession(const Directory& people,
                                                         const v1::Caller& caller);
  // Wrong tokens from one address.
  struct Wrong {
    uint64_t times = 0;
    std::string last;  // which token it was of
  };
  void NoteUse(uint64_t token);
  void NoteWrong(const std::string& address, const std::string& what);
  void Tell();
  void TellUses(const v1::ChangePeopleRequest& request);
  void TellWrong(const std::string& address, const Wrong& wrong);

  const ViewStore& store_;
  Scheduler& scheduler_;
  const std::chrono::milliseconds tell_every_;
  Guesses guesses_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::mutex begin_mutex_;                   // one session is made at a time
  std::map<std::string, uint64_t> proxied_;  // by user: the number of the session
  std::map<uint64_t, int64_t> uses_;         // by token, unix ns; not told to the scheduler yet
  std::map<std::string, Wrong> wrong_;       // by address; not told yet
  std::thread teller_;                       // last: it uses the members above
};

}  // namespace tide::api
