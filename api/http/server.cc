#include "api/http/server.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "api/gate/gate.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

// Threads beyond those that streams may hold: short requests.
constexpr size_t kShortRequests = 64;
// The body of a request that needs no sign-in: a code, a token.
constexpr size_t kOpenBodyMax = 4U << 10U;

// Sent with every answer.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSecurityHeaders = {
    {{"Content-Security-Policy",
      "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
      "form-action 'none'; object-src 'none'"},
     {"X-Content-Type-Options", "nosniff"},
     {"X-Frame-Options", "DENY"},
     {"Referrer-Policy", "no-referrer"},
     {"Cross-Origin-Opener-Policy", "same-origin"},
     {"Cross-Origin-Resource-Policy", "same-origin"}}};

// Takes the first step off a path: "v1" of "/v1/jobs".
std::string_view CutStep(std::string_view& path) {
  const size_t end = std::min(path.find('/', 1), path.size());
  const std::string_view step = path.substr(1, end - 1);
  path.remove_prefix(end);
  return step;
}

// Whether `path` is one of "/v1/jobs/{ref}"; fills in what stands at the names.
bool Matches(std::string_view pattern,
             std::string_view path,
             std::map<std::string, std::string>& names) {
  names.clear();
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = CutStep(pattern);
    const std::string_view step = CutStep(path);
    if (wanted.starts_with('{') && !step.empty()) {
      names.emplace(wanted.substr(1, wanted.size() - 2), step);
    } else if (wanted != step) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

// Headers that name a proxy's user are read where the proxy is known, and nowhere else.
struct ProxyWord {
  std::string user;        // that a trusted proxy has signed in; "" = none
  bool is_forged = false;  // somebody else named one
};

bool IsToken(const std::string& bearer) {
  return ParseTokenText(bearer) || ParseJobTokenText(bearer);
}

Call MakeCall(const Head& head) {
  Call call;
  call.request_id = RandomHex(8);
  call.query = head.query;
  call.headers = head.headers;
  return call;
}

Reply ProblemReply(const Problem& problem, const std::string& id) {
  Reply reply;
  reply.status = problem.status;
  reply.content_type = kProblemType;
  reply.body = ProblemJson(problem, id);
  if (problem.status == 401) {
    reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"tide\"");
  }
  if (problem.retryable) {
    reply.headers.emplace_back("Retry-After", std::to_string(problem.retry_after_s));
  }
  return reply;
}

// Ends when the server does, or what the request was let in with: a token that is revoked, a job's
// attempt that is over.
class StoppableSink final : public BodySink {
 public:
  StoppableSink(BodySink& sink, const ViewStore& store, const Actor& who)
      : sink_(sink), store_(store), still_(store, who) {}
  bool Write(std::string_view data) override { return GoesOn() && sink_.Write(data); }
  bool Alive() override { return GoesOn() && sink_.Alive(); }

 private:
  [[nodiscard]] bool GoesOn() { return !store_.stopped() && still_.Check(); }

  BodySink& sink_;
  const ViewStore& store_;
  StillSignedIn still_;
};

}  // namespace

class Server::Impl final : public Service {
 public:
  Impl(ServerOptions options, Routes routes, const App& app)
      : options_(std::move(options)),
        routes_(std::move(routes)),
        app_(app),
        auth_(app.auth),
        store_(app.store),
        gate_(options_.gate,
              static_cast<size_t>(options_.max_streams) + kShortRequests,
              *this,
              *app.connections,
              app.tls) {}

  Result<int> Listen() { return gate_.Listen(options_.host, options_.port); }
  void Run() { gate_.Run(); }
  void Stop() { gate_.Stop(); }

  std::expected<size_t, Reply> Admit(const Head& head, const std::string& address) override {
    Call call = CallOf(head, address);
    const auto route = Find(head, call);
    if (!route) {
      return std::unexpected(Finished(ProblemReply(route.error(), call.request_id), call));
    }
    if (const auto refused = Authorise(**route, WordOf(head, address), call)) {
      return std::unexpected(Finished(ProblemReply(*refused, call.request_id), call));
    }
    if ((*route)->method == "GET") {
      return 0;  // none reads it; a stream would keep it as long as it lasts
    }
    return (*route)->access ? options_.gate.body : kOpenBodyMax;
  }

  Reply Answer(Request request) override {
    Call call = CallOf(request.head, request.address);
    call.body = std::move(request.body);
    Reply reply;
    try {
      auto outcome = Handle(request, call);
      reply = outcome ? *std::move(outcome) : ProblemReply(outcome.error(), call.request_id);
    } catch (const std::exception& error) {
      log::Failure(
          "request failed",
          {{"path", request.head.path}, {"error", error.what()}, {"request_id", call.request_id}});
      reply = ProblemReply(
          ToProblem({ErrorCode::kInternal, "tide-api failed; its log has the details"}),
          call.request_id);
    }
    return Finished(std::move(reply), call);
  }

  [[nodiscard]] bool StandsForMany(const std::string& address) const override {
    return app_.proxies->SitsAt(address);
  }

  Reply Refuse(const Refusal& refusal) override {
    Call call;
    call.request_id = RandomHex(8);
    call.over_https = app_.tls != nullptr;
    const Problem problem = RefuseStatus(refusal.status, refusal.code, refusal.detail).error();
    return Finished(ProblemReply(problem, call.request_id), call);
  }

 private:
  [[nodiscard]] Call CallOf(const Head& head, const std::string& peer) const {
    Call call = MakeCall(head);
    call.address = app_.proxies->ClientOf(head, peer);
    call.over_https = app_.tls != nullptr || app_.proxies->SaysHttps(head, peer);
    return call;
  }

  [[nodiscard]] ProxyWord WordOf(const Head& head, const std::string& peer) const {
    return {app_.proxies->UserOf(head, peer), app_.proxies->IsUserForged(head, peer)};
  }

  // The route of the request; fills in the names in its path.
  std::expected<const Route*, Problem> Find(const Head& head, Call& call) const {
    if (!HostAllowed(head.Header("host"))) {
      // A page of another site whose name was pointed here must learn nothing.
      return RefuseStatus(421,
                          "unknown_host",
                          "this server does not answer to that Host; use localhost, or "
                          "start tide-api with --allow-host NAME");
    }
    const std::string method = head.method == "HEAD" ? "GET" : head.method;
    for (const Route& route : routes_) {
      if (route.method == method && Matches(route.pattern, head.path, call.path)) {
        return &route;
      }
    }
    return RefuseStatus(404, "not_found", "there is nothing at " + head.method + " " + head.path);
  }

  Outcome Handle(const Request& request, Call& call) {
    const auto route = Find(request.head, call);
    if (!route) {
      return std::unexpected(route.error());
    }
    const ProxyWord word = WordOf(request.head, request.address);
    if (const auto refused = Authorise(**route, word, call)) {
      return std::unexpected(*refused);
    }
    // Some wait for the scheduler. A stream holds a slot of its own from here on.
    const auto slot = call.who.user.empty() ? std::expected<std::shared_ptr<void>, Problem>()
                                            : app_.requests->Take(call.who.user);
    if (!slot) {
      return std::unexpected(slot.error());
    }
    auto outcome = (*route)->handler(call);
    if (!outcome && outcome.error().status >= 500 && !outcome.error().retryable) {
      log::Warning("request failed",
                   {{"path", (*route)->pattern},
                    {"code", outcome.error().code},
                    {"detail", outcome.error().detail},
                    {"request_id", call.request_id}});
    }
    return outcome;
  }

  // Adds what every answer has.
  Reply Finished(Reply reply, const Call& call) const {
    const auto named = [&reply](std::string_view name) {
      return std::ranges::any_of(reply.headers,
                                 [name](const auto& header) { return header.first == name; });
    };
    if (!named("Cache-Control")) {
      reply.headers.emplace_back("Cache-Control", named("ETag") ? "private, no-cache" : "no-store");
    }
    reply.headers.emplace_back("Tide-Request-Id", call.request_id);
    if (const auto stale = store_.StaleSeconds()) {
      reply.headers.emplace_back("Tide-Stale", std::to_string(*stale));
    }
    for (const auto& [name, value] : kSecurityHeaders) {
      reply.headers.emplace_back(name, value);
    }
    if (call.over_https) {
      reply.headers.emplace_back("Strict-Transport-Security", "max-age=31536000");
    }
    if (reply.stream) {
      reply.headers.emplace_back("X-Accel-Buffering", "no");  // a proxy must pass pieces on at once
      reply.stream = [this, stream = std::move(reply.stream), id = call.request_id, who = call.who](
                         BodySink& out) {
        StoppableSink sink(out, store_, who);
        try {
          stream(sink);
        } catch (const std::exception& error) {
          log::Failure("stream failed", {{"error", error.what()}, {"request_id", id}});
          throw;
        }
      };
    }
    return reply;
  }

  [[nodiscard]] bool HostAllowed(const std::string& authority) const {
    const std::string host = HostName(authority);
    return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == options_.host ||
           std::ranges::find(options_.allowed_hosts, host) != options_.allowed_hosts.end();
  }

  // Finds out who calls: by a token that is shown; else whom a trusted proxy names; else by the
  // session of a browser. Some proxies pass on a bearer that is none of Tide's.
  Result<Identity> FindCaller(const std::string& bearer, const ProxyWord& word, const Call& call) {
    if (!word.user.empty() && !IsToken(bearer)) {
      v1::Caller caller = call.Caller();
      caller.set_user(word.user);
      return auth_.FromProxy(caller);
    }
    const std::string shown =
        bearer.empty() ? CookieValue(call.Header("cookie"), kSessionCookie) : bearer;
    auto who = auth_.FromToken(shown, call.address);
    if (!who && shown.empty() && word.is_forged) {
      who.error().message +=
          "; who passed this request on names a user, but is no proxy that this server trusts: see "
          "--trust-proxy and --proxy-secret-file";
    }
    return who;
  }

  // Returns whether this is about the job whose token is shown, or about anything by a user's.
  [[nodiscard]] bool IsOfOwnJob(const Call& call) const {
    if (call.who.job == 0) {
      return true;
    }
    const ViewPtr view = store_.Get();
    if (view == nullptr) {
      return false;
    }
    const auto job = FindJob(*view, call.Path("ref"), call.who.user);
    return job && *job != nullptr && (*job)->message.id() == call.who.job;
  }

  // Fills in call.who, or says why not.
  std::optional<Problem> Authorise(const Route& route, const ProxyWord& word, Call& call) {
    const std::string origin = call.Header("origin");
    const std::string authority = call.Header("host");
    const bool same_origin = origin == "http://" + authority || origin == "https://" + authority;
    if (!route.access) {
      if (route.method != "GET" && !origin.empty() && !same_origin) {
        return ToProblem({ErrorCode::kPermissionDenied, "another site sent this request"});
      }
      return std::nullopt;
    }
    constexpr std::string_view kBearer = "Bearer ";
    const std::string authorization = call.Header("authorization");
    const std::string bearer =
        authorization.starts_with(kBearer) ? authorization.substr(kBearer.size()) : "";
    const auto who = FindCaller(bearer, word, call);
    if (!who) {
      return ToProblem(who.error());
    }
    // A browser sends its cookie, and that of the proxy, whoever made the page; only the Origin
    // tells.
    const bool has_token = IsToken(bearer);
    if (!has_token && route.method != "GET" && !same_origin) {
      return ToProblem({ErrorCode::kPermissionDenied,
                        "a change made with a session needs the Origin of this server"});
    }
    call.operation = *route.access;
    call.who = who->actor;
    call.people = who->people;
    // Of one's own, which needs least: how the caller stands to a job is looked at when it is
    // found. A job's token is for the routes of that job alone.
    const Relation relation = IsOfOwnJob(call) ? Relation::kOwn : Relation::kOther;
    if (const Status allowed = CheckAllowed(call.who, call.operation, relation); !allowed) {
      if (const Status recorded = RecordAudit(app_, call, {"", "", ToProblem(allowed.error())});
          !recorded) {
        log::Warning("a refusal is not in the audit", {{"error", recorded.error().message}});
      }
      return ToProblem(allowed.error());
    }
    return std::nullopt;
  }

  const ServerOptions options_;
  const Routes routes_;
  const App& app_;
  Authenticator& auth_;
  const ViewStore& store_;
  Gate gate_;  // last: its workers use the members above
};

Server::Server(ServerOptions options, Routes routes, const App& app)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(routes), app)) {}
Server::~Server() = default;
Result<int> Server::Listen() {
  return impl_->Listen();
}
void Server::Run() {
  impl_->Run();
}
void Server::Stop() {
  impl_->Stop();
}

}  // namespace tide::api
