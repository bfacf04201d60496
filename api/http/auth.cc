#include "api/http/auth.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/time.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

constexpr auto kFlushEvery = std::chrono::seconds(30);
// A token that is used all the time is noted as used about so often.
constexpr int64_t kUseGrain = 60'000'000'000;
constexpr std::string_view kHowToSignIn =
    "send `Authorization: Bearer TOKEN`: `tide login` does so from then on, `tide ui` opens a "
    "browser that is signed in; `tide token create` makes a token";

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

Authenticator::Authenticator(const ViewStore& store, Scheduler& scheduler)
    : store_(store), scheduler_(scheduler), flusher_([this] { FlushUses(); }) {}

Authenticator::~Authenticator() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  flusher_.join();
}

Result<Identity> Authenticator::FromToken(std::string_view text, const std::string& address) {
  if (text.empty()) {
    return Fail(ErrorCode::kUnauthenticated, "you are not signed in: " + std::string(kHowToSignIn));
  }
  const ViewPtr view = store_.Get();
  if (view == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                "the scheduler has not answered yet; running jobs continue; try again soon");
  }
  const auto parsed = ParseTokenText(text);
  const int64_t now = MonotonicNanos();
  const std::string token_key = parsed ? "token " + std::to_string(parsed->number) : "";
  TIDE_TRY(guesses_.Check(address, now));
  if (parsed) {
    TIDE_TRY(guesses_.Check(token_key, now));
  }
  auto actor = parsed ? view->people->Authenticate(*parsed, SystemNow())
                      : Result<Actor>(Fail(
                            ErrorCode::kUnauthenticated,
                            "that is no token of Tide, such as tide_7_…, of 64 digits and more"));
  if (!actor) {
    guesses_.Note(address, now);
    if (parsed) {
      guesses_.Note(token_key, now);
    }
    return std::unexpected(std::move(actor.error()));
  }
  NoteUse(actor->token);
  return Identity{*std::move(actor), view->people};
}

Result<Authenticator::Session> Authenticator::SpendCode(std::string_view code,
                                                        const v1::Caller& caller) {
  const int64_t now = MonotonicNanos();
  TIDE_TRY(guesses_.Check(caller.address(), now));
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
      guesses_.Note(caller.address(), now);
    }
    return std::unexpected(changed.error());
  }
  static_cast<void>(store_.WaitForRev(changed->rev(), std::chrono::seconds(10)));
  return Session{MakeTokenText(changed->token().number(), secret), changed->token()};
}

Result<Authenticator::Session> Authenticator::Begin(const Actor& actor, const v1::Caller& caller) {
  const std::string secret = RandomHex(kTokenSecretBytes);
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = caller;
  v1::IssueToken& issue = *request.mutable_issue_token();
  issue.set_user(actor.user);
  issue.set_kind(v1::TOKEN_KIND_SESSION);
  issue.set_sha256(SecretDigest(secret));
  issue.set_scopes(actor.scopes);
  issue.set_expires_at((SystemNow() + Duration::Seconds(kSessionSeconds)).unix_nanos());
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

// Tells the scheduler of uses some seconds later, as one change: nobody waits for it.
void Authenticator::FlushUses() {
  std::map<uint64_t, int64_t> told;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kFlushEvery, [this] { return stopping_; })) {
    v1::ChangePeopleRequest request;
    for (const auto& [token, used] : std::exchange(uses_, {})) {
      if (used - told[token] > kUseGrain) {
        told[token] = used;
        v1::TokenUse& use = *request.mutable_note_uses()->add_uses();
        use.set_token(token);
        use.set_used_at(used);
      }
    }
    if (!request.has_note_uses()) {
      continue;
    }
    lock.unlock();
    if (const auto changed = scheduler_.ChangePeople(request); !changed) {
      log::Warning("uses of tokens not noted", {{"error", changed.error().message}});
    }
    lock.lock();
  }
}

}  // namespace tide::api
