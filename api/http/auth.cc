#include "api/http/auth.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/gate/listener.h"
#include "common/base/time.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

constexpr size_t kWrongMax = 1000;           // addresses between two flushes; more are one
constexpr int64_t kLookEvery = 250'000'000;  // ns
// A token that is used all the time is noted as used about so often.
constexpr int64_t kUseGrain = 60'000'000'000;
// Label of sessions that a proxy's word has made.
constexpr const char* kProxyLabel = "by proxy";
constexpr std::string_view kHowToSignIn =
    "send `Authorization: Bearer TOKEN`: `tide login` does so from then on, `tide ui` opens a "
    "browser that is signed in; `tide token create` makes a token";

// Finds out which job's own token this is: it counts while an attempt holds nodes.
Result<Actor> ActorOfJob(const View& view, const TokenText& token) {
  const auto found = view.jobs.find(token.number);
  if (found == view.jobs.end() ||
      !EqualInConstantTime(found->second->message.token_sha256(), token.sha256)) {
    return Fail(ErrorCode::kUnauthenticated,
                "this token of a job is unknown, or its attempt is over: each start has a new one");
  }
  const std::string& owner = found->second->message.user();
  if (view.people->FindUser(owner) == nullptr) {
    return Fail(ErrorCode::kUnauthenticated, "user " + owner + " was removed");
  }
  return Actor{
      owner, Role::kViewer, static_cast<uint32_t>(Scope::kRead), 0, found->second->message.id()};
}

}  // namespace

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

StillSignedIn::StillSignedIn(const ViewStore& store, const Actor& actor)
    : store_(store), actor_(actor), job_digest_(JobDigest()) {}

std::string StillSignedIn::JobDigest() const {
  const ViewPtr view = store_.Get();
  if (actor_.job == 0 || view == nullptr) {
    return "";
  }
  const auto found = view->jobs.find(actor_.job);
  return found == view->jobs.end() ? "" : found->second->message.token_sha256();
}

bool StillSignedIn::Check() {
  const int64_t now = MonotonicNanos();
  if (holds_ && now >= look_at_ns_) {
    look_at_ns_ = now + kLookEvery;
    holds_ = Look();
  }
  return holds_;
}

bool StillSignedIn::Look() const {
  const ViewPtr view = store_.Get();
  if (view == nullptr || actor_.user.empty()) {
    return true;  // a route that needs no sign-in
  }
  if (actor_.job != 0) {
    return !job_digest_.empty() && JobDigest() == job_digest_ &&
           view->people->FindUser(actor_.user) != nullptr;
  }
  const auto now = view->people->ActorOf(actor_.token, actor_.user, SystemNow());
  return now && now->role == actor_.role;
}

Authenticator::Authenticator(const ViewStore& store,
                             Scheduler& scheduler,
                             std::chrono::milliseconds tell_every)
    : store_(store), scheduler_(scheduler), tell_every_(tell_every), teller_([this] { Tell(); }) {}

Authenticator::~Authenticator() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  teller_.join();
}

Result<ViewPtr> Authenticator::NeedPeople() const {
  ViewPtr view = store_.Get();
  if (view == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                "the scheduler has not answered yet; running jobs continue; try again soon");
  }
  return view;
}

Result<Identity> Authenticator::FromToken(std::string_view text, const std::string& address) {
  if (text.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "you are not signed in: " + std::string(kHowToSignIn));
  }
  TIDE_ASSIGN(const ViewPtr view, NeedPeople());
  const auto token = ParseTokenText(text);
  const auto of_job = ParseJobTokenText(text);
  const bool is_known_form = token || of_job;
  // All before the secret: the token that it is a guess of.
  const std::string named(is_known_form ? text.substr(0, text.rfind('_')) : "");
  const int64_t now = MonotonicNanos();
  auto actor = token    ? view->people->Authenticate(*token, SystemNow())
               : of_job ? ActorOfJob(*view, *of_job)
                        : Result<Actor>(Fail(
                              ErrorCode::kUnauthenticated,
                              "that is no token of Tide, such as tide_7_…, of 64 digits and more"));
  if (!actor) {
    // Only who is wrong is slowed: others of that address, and the one whose token is guessed at,
    // come in as ever.
    TIDE_TRY(guesses_.Take(NetworkOf(address), now));
    if (is_known_form) {
      TIDE_TRY(guesses_.Take(named, now));
    }
    NoteWrong(address, is_known_form ? named : "none of Tide's");
    return std::unexpected(std::move(actor.error()));
  }
  if (actor->token != 0) {
    NoteUse(actor->token);
  }
  return Identity{*std::move(actor), view->people};
}

Result<Actor> Authenticator::ProxySession(const Directory& people, const std::string& user) {
  uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = proxied_.find(user);
    number = known == proxied_.end() ? 0 : known->second;
  }
  return people.ActorOf(number, user, SystemNow());
}

Result<Identity> Authenticator::FromProxy(const v1::Caller& caller) {
  TIDE_ASSIGN(ViewPtr view, NeedPeople());
  const User* user = view->people->FindUser(caller.user());
  if (user == nullptr) {
    return Fail(ErrorCode::kPermissionDenied,
                "the proxy says that you are " + caller.user() +
                    ", whom Tide does not know; an admin can change that: `tide user add`");
  }
  auto actor = ProxySession(*view->people, user->name);
  if (!actor) {
    const std::scoped_lock one_at_a_time(begin_mutex_);
    TIDE_ASSIGN(view, NeedPeople());
    actor = ProxySession(*view->people, caller.user());
    if (!actor) {
      TIDE_ASSIGN(const uint64_t number, FindOrBeginProxySession(*view->people, caller));
      {
        const std::scoped_lock lock(mutex_);
        proxied_[caller.user()] = number;
      }
      TIDE_ASSIGN(view, NeedPeople());
      actor = view->people->ActorOf(number, caller.user(), SystemNow());
    }
  }
  TIDE_TRY(actor);
  NoteUse(actor->token);
  return Identity{*std::move(actor), view->people};
}

// One that another API server made, or this one before it was started anew, does.
Result<uint64_t> Authenticator::FindOrBeginProxySession(const Directory& people,
                                                        const v1::Caller& caller) {
  for (const auto& [number, token] : people.tokens()) {
    if (token.user == caller.user() && token.kind == TokenKind::kSession &&
        token.label == kProxyLabel && token.expires_at > SystemNow()) {
      return number;
    }
  }
  v1::IssueToken issue;
  issue.set_user(caller.user());
  issue.set_scopes(kAllScopes);
  issue.set_label(kProxyLabel);
  issue.set_by_proxy(true);
  TIDE_ASSIGN(const Session session, Issue(std::move(issue), caller));
  return session.token.number();
}

Result<Authenticator::Session> Authenticator::SpendCode(std::string_view code,
                                                        const v1::Caller& caller) {
  // Each is a question to the scheduler, so wrong ones are slowed before; by themselves, lest wrong
  // tokens keep people from signing in.
  const std::string from = "codes of " + NetworkOf(caller.address());
  const int64_t now = MonotonicNanos();
  TIDE_TRY(guesses_.Check(from, now));
  const auto parsed = ParseTokenText(code);
  const std::string secret = RandomHex(kTokenSecretBytes);
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = caller;
  v1::SpendCode& spend = *request.mutable_spend_code();
  spend.set_code(parsed ? parsed->number : 0);
  spend.set_code_sha256(parsed ? parsed->sha256 : "");
  spend.set_session_sha256(SecretDigest(secret));
  spend.set_expires_at((SystemNow() + Duration::Seconds(kSessionSeconds)).unix_nanos());
  const auto changed = scheduler_.ChangePeople(request);
  if (!changed) {
    if (changed.error().code == ErrorCode::kUnauthenticated) {
      static_cast<void>(guesses_.Take(from, now));
      NoteWrong(caller.address(), "a code");
    }
    return std::unexpected(changed.error());
  }
  static_cast<void>(store_.WaitForRev(changed->rev(), std::chrono::seconds(10)));
  return Session{MakeTokenText(changed->token().number(), secret), changed->token()};
}

Result<Authenticator::Session> Authenticator::Begin(const Actor& actor, const v1::Caller& caller) {
  if (actor.job != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                "a job's token signs nobody in: it sees that job, and ends with it");
  }
  v1::IssueToken issue;
  issue.set_user(actor.user);
  issue.set_scopes(actor.scopes);
  return Issue(std::move(issue), caller);
}

Result<Authenticator::Session> Authenticator::Issue(v1::IssueToken issue,
                                                    const v1::Caller& caller) {
  const std::string secret = RandomHex(kTokenSecretBytes);
  issue.set_kind(v1::TOKEN_KIND_SESSION);
  issue.set_sha256(SecretDigest(secret));
  issue.set_expires_at((SystemNow() + Duration::Seconds(kSessionSeconds)).unix_nanos());
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = caller;
  *request.mutable_issue_token() = std::move(issue);
  TIDE_ASSIGN(const v1::ChangePeopleResponse changed, scheduler_.ChangePeople(request));
  static_cast<void>(store_.WaitForRev(changed.rev(), std::chrono::seconds(10)));
  return Session{MakeTokenText(changed.token().number(), secret), changed.token()};
}

void Authenticator::NoteUse(uint64_t token) {
  const int64_t now = SystemNow().unix_nanos();
  const std::scoped_lock lock(mutex_);
  int64_t& used = uses_[token];
  used = std::max(used, now);
}

void Authenticator::NoteWrong(const std::string& address, const std::string& what) {
  const std::scoped_lock lock(mutex_);
  const bool is_told_apart = wrong_.size() < kWrongMax || wrong_.contains(address);
  Wrong& wrong = wrong_[is_told_apart ? address : "many"];
  ++wrong.times;
  wrong.last = what;
}

// Tells the scheduler of uses some seconds later, as one change, and of wrong tokens, as one entry
// of the audit for each address: nobody waits for it, and who guesses makes no work for it.
void Authenticator::Tell() {
  std::map<uint64_t, int64_t> told;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, tell_every_, [this] { return stopping_; })) {
    v1::ChangePeopleRequest request;
    for (const auto& [token, used] : std::exchange(uses_, {})) {
      if (used - told[token] > kUseGrain) {
        told[token] = used;
        v1::TokenUse& use = *request.mutable_note_uses()->add_uses();
        use.set_token(token);
        use.set_used_at(used);
      }
    }
    const std::map<std::string, Wrong> wrong = std::exchange(wrong_, {});
    lock.unlock();
    TellUses(request);
    for (const auto& [address, each] : wrong) {
      TellWrong(address, each);
    }
    lock.lock();
  }
}

void Authenticator::TellUses(const v1::ChangePeopleRequest& request) {
  if (!request.has_note_uses()) {
    return;
  }
  if (const auto changed = scheduler_.ChangePeople(request); !changed) {
    log::Warning("uses of tokens not noted", {{"error", changed.error().message}});
  }
}

void Authenticator::TellWrong(const std::string& address, const Wrong& wrong) {
  v1::RecordAuditRequest request;
  request.mutable_caller()->set_address(address);
  request.set_operation(std::string(PermissionOf(Operation::kSeeSelf).name));
  request.set_object("sign-in");
  request.set_outcome(std::string(ErrorCodeName(ErrorCode::kUnauthenticated)));
  request.set_detail(std::to_string(wrong.times) +
                     " wrong tokens or codes, the last: " + wrong.last);
  if (const Status recorded = scheduler_.RecordAudit(request); !recorded) {
    log::Warning("wrong tokens are not in the audit", {{"error", recorded.error().message}});
  }
}

}  // namespace tide::api
