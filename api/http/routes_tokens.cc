// Sign-in, sign-out, and one's tokens: of programs, of browsers, codes that work once.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/http/body.h"
#include "api/http/routes.h"
#include "api/view/json.h"
#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "common/spec/span_text.h"

namespace tide::api {
namespace {

constexpr Duration kCodeLife = Duration::Seconds(60);
constexpr Duration kCodeLifeMost = Duration::Minutes(10);  // the link of `tide dev`
constexpr Duration kTokenLife = Duration::Minutes(90 * 24 * 60);

Json MomentOrNull(Instant at) {
  return !at.is_set() || at == Instant::Never() ? Json(nullptr) : Json(FormatRfc3339(at));
}

Json TokenJson(const Token& token, uint64_t used_now) {
  return {{"id", token.number},
          {"user", token.user},
          {"kind", TokenKindName(token.kind)},
          {"label", token.label},
          {"scopes", ScopesText(token.scopes)},
          {"created_at", MomentOrNull(token.created_at)},
          {"expires_at", MomentOrNull(token.expires_at)},
          {"used_at", MomentOrNull(token.used_at)},
          {"this", token.number == used_now}};
}

Json ProjectsOf(const Directory& people, const std::string& user) {
  Json projects = Json::array();
  for (const auto& [number, project] : people.projects()) {
    if (const Member* member = people.FindMember(project.name, user)) {
      projects.push_back({{"name", project.name},
                          {"max_class", PriorityName(member->max_class)},
                          {"exec", member->exec}});
    }
  }
  return projects;
}

// Who is signed in, by what, until when.
Json SelfJson(const Actor& who, const Directory& people) {
  const Token* token = people.FindToken(who.token);
  const User* user = people.FindUser(who.user);
  return {{"user", who.user},
          {"role", RoleName(who.role)},
          {"scopes", ScopesText(who.scopes)},
          {"token", who.token},
          {"kind", token == nullptr ? "" : TokenKindName(token->kind)},
          {"expires_at", token == nullptr ? Json(nullptr) : MomentOrNull(token->expires_at)},
          {"project", user == nullptr ? "" : user->project},
          {"projects", ProjectsOf(people, who.user)}};
}

// Where it speaks HTTPS, a browser keeps the cookie from plain HTTP.
std::string SessionCookie(const Call& call, const std::string& value, int64_t seconds) {
  return std::string(kSessionCookie) + "=" + value +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(seconds) +
         (call.over_https ? "; Secure" : "");
}

Outcome Login(App& app, const Call& call) {
  auto body = Body::Read(call, {"code", "token"});
  if (!body) {
    return std::unexpected(body.error());
  }
  const auto code = body->Text("code");
  const auto token = body->Text("token");
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  Call caller = call;
  Result<Authenticator::Session> session =
      Fail(ErrorCode::kInvalidArgument, "give `code` or `token`");
  if (token) {
    const auto who = app.auth.FromToken(*token, call.address);
    if (!who) {
      return std::unexpected(ToProblem(who.error()));
    }
    caller.who = who->actor;
    session = app.auth.Begin(who->actor, caller.Caller());
  } else if (code) {
    session = app.auth.SpendCode(*code, caller.Caller());
  }
  if (!session) {
    return std::unexpected(ToProblem(session.error()));
  }
  const auto who = app.auth.FromToken(session->cookie, call.address);
  if (!who) {
    return std::unexpected(ToProblem(who.error()));
  }
  Reply reply = JsonReply(SelfJson(who->actor, *who->people));
  reply.headers.emplace_back("Set-Cookie",
                             SessionCookie(call, session->cookie, Authenticator::kSessionSeconds));
  return reply;
}

Outcome Revoke(App& app, const Call& call, uint64_t number) {
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = call.Caller();
  request.set_revoke_token(number);
  const auto changed = app.scheduler.ChangePeople(request);
  if (!changed) {
    return std::unexpected(ToProblem(changed.error()));
  }
  AwaitRev(app, changed->rev());
  return JsonReply({{"id", number}});
}

// Ends the session, or the token, by which it is asked.
Outcome Logout(App& app, const Call& call) {
  auto revoked = Revoke(app, call, call.who.token);
  if (revoked) {
    revoked->headers.emplace_back("Set-Cookie", SessionCookie(call, "", 0));
  }
  return revoked;
}

// A new token with its text, which is never shown again.
Outcome Issue(App& app, const Call& call, v1::IssueToken issue) {
  const std::string secret = RandomHex(kTokenSecretBytes);
  issue.set_sha256(SecretDigest(secret));
  v1::ChangePeopleRequest request;
  *request.mutable_caller() = call.Caller();
  *request.mutable_issue_token() = std::move(issue);
  const auto changed = app.scheduler.ChangePeople(request);
  if (!changed) {
    return std::unexpected(ToProblem(changed.error()));
  }
  AwaitRev(app, changed->rev());
  const v1::Token& token = changed->token();
  return JsonReply({{"id", token.number()},
                    {"user", token.user()},
                    {"token", MakeTokenText(token.number(), secret)},
                    {"scopes", ScopesText(token.scopes())},
                    {"expires_at", MomentOrNull(Instant::FromUnixNanos(token.expires_at()))}},
                   201);
}

Outcome MakeCode(App& app, const Call& call) {
  auto body = Body::Read(call, {"ttl_s"});
  if (!body) {
    return std::unexpected(body.error());
  }
  const uint32_t seconds =
      body->Number("ttl_s").value_or(static_cast<uint32_t>(kCodeLife.millis() / 1000));
  if (Duration::Seconds(seconds) > kCodeLifeMost || seconds == 0) {
    body->Refuse("ttl_s", "1 to 600 seconds");
  }
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  v1::IssueToken issue;
  issue.set_user(call.who.user);
  issue.set_kind(v1::TOKEN_KIND_CODE);
  issue.set_scopes(call.who.scopes);
  issue.set_expires_at((SystemNow() + Duration::Seconds(seconds)).unix_nanos());
  return Issue(app, call, std::move(issue));
}

// Returns when a token ends for which no end is asked: one of one's own not after the one it is
// made by.
Instant UsualExpiry(const Call& call, bool own) {
  const Token* maker = call.people->TokenBehind(call.who.token);
  const Instant usual = SystemNow() + kTokenLife;
  return own && maker != nullptr ? std::min(usual, maker->expires_at) : usual;
}

// Reads when a token ends that is asked for with `expires`: a span such as 30d, or "never".
std::optional<Instant> ReadExpiry(const std::optional<std::string>& text, Instant usual) {
  if (!text) {
    return usual;
  }
  if (*text == "never") {
    return Instant::Never();
  }
  const auto span = ParseSpan(*text);
  return span && span->nanos() > 0 ? std::optional(SystemNow() + *span) : std::nullopt;
}

Outcome MakeToken(App& app, const Call& call) {
  auto body = Body::Read(call, {"user", "label", "scopes", "expires"});
  if (!body) {
    return std::unexpected(body.error());
  }
  v1::IssueToken issue;
  issue.set_user(body->Text("user").value_or(call.who.user));
  issue.set_kind(v1::TOKEN_KIND_TOKEN);
  issue.set_label(body->Text("label").value_or(""));
  const auto scopes = body->Text("scopes");
  const auto bits = scopes ? ParseScopes(*scopes) : std::optional(kAllScopes);
  if (!bits || *bits == 0) {
    body->Refuse("scopes", "some of read,jobs,nodes,admin");
  }
  const bool own = issue.user() == call.who.user;
  issue.set_scopes(bits.value_or(0) & (own && !scopes ? call.who.scopes : kAllScopes));
  const auto expires = ReadExpiry(body->Text("expires"), UsualExpiry(call, own));
  if (!expires) {
    body->Refuse("expires", "a time such as 30d or 12h, or never");
  }
  if (const auto read = body->Finish(); !read) {
    return std::unexpected(read.error());
  }
  issue.set_expires_at(expires.value_or(Instant()).unix_nanos());
  return Issue(app, call, std::move(issue));
}

// One's own, or with `?user=` another's, which the scope of admins sees.
Outcome ListTokens(const App& app, const Call& call) {
  const auto view = NeedView(app);
  if (!view) {
    return std::unexpected(view.error());
  }
  const std::string asked = call.Query("user");
  const std::string user = asked.empty() ? call.who.user : asked;
  if (user != call.who.user) {
    const Status allowed = CheckAllowed(call.who, Operation::kManageUsers, Relation::kOther, user);
    if (!allowed) {
      return std::unexpected(ToProblem(allowed.error()));
    }
  }
  Json items = Json::array();
  for (const auto& [number, token] : (*view)->people->tokens()) {
    if (token.user == user && token.kind != TokenKind::kCode && token.expires_at > SystemNow()) {
      items.push_back(TokenJson(token, call.who.token));
    }
  }
  return JsonReply({{"items", std::move(items)}, {"next_cursor", nullptr}});
}

Outcome RevokeToken(App& app, const Call& call) {
  Call numbered = call;
  numbered.query["id"] = call.Path("id");
  const auto number = ParseNumber(numbered, "id", 0);
  if (!number) {
    return std::unexpected(number.error());
  }
  return Revoke(app, call, static_cast<uint64_t>(*number));
}

}  // namespace

Routes SessionRoutes(App& app) {
  return {{"POST", "/v1/login", kOpen, [&app](const Call& c) { return Login(app, c); }},
          {"POST",
           "/v1/logout",
           Operation::kSeeSelf,
           [&app](const Call& call) { return Logout(app, call); }},
          {"POST",
           "/v1/codes",
           Operation::kManageOwnTokens,
           [&app](const Call& call) { return MakeCode(app, call); }},
          {"GET", "/v1/session", Operation::kSeeSelf, [](const Call& call) -> Outcome {
             return JsonReply(SelfJson(call.who, *call.people));
           }}};
}

Routes TokenRoutes(App& app) {
  return {{"GET",
           "/v1/tokens",
           Operation::kSeeSelf,
           [&app](const Call& call) { return ListTokens(app, call); }},
          {"POST",
           "/v1/tokens",
           Operation::kManageOwnTokens,
           [&app](const Call& call) { return MakeToken(app, call); }},
          {"DELETE", "/v1/tokens/{id}", Operation::kManageOwnTokens, [&app](const Call& call) {
             return RevokeToken(app, call);
           }}};
}

}  // namespace tide::api
