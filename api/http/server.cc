#include "api/http/server.h"

#include <httplib.h>

#include <algorithm>

#include "common/log/log.h"

namespace tide::api {
namespace {

// Threads beyond those that streams may hold: short requests and idle connections.
constexpr int kShortRequests = 64;
// Above the 1 MiB of a job spec, so that the route can say what is too long.
constexpr size_t kMaxBody = (1U << 20U) + (64U << 10U);

const httplib::Headers kSecurityHeaders = {
    {"Content-Security-Policy",
     "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
     "form-action 'none'; object-src 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"}};

// "/v1/jobs/{ref}" → an expression with one group for each name.
std::string Expression(const std::string& pattern, std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{') {
      const size_t end = pattern.find('}', i);
      names.push_back(pattern.substr(i + 1, end - i - 1));
      out += "([^/]+)";
      i = end;
    } else if (pattern[i] == '.' || pattern[i] == '+') {
      out += std::string("\\") + pattern[i];
    } else {
      out += pattern[i];
    }
  }
  return out;
}

// Where Tame() keeps what the client wrote in Accept-Encoding.
constexpr const char* kAcceptsKey = "tide-accept-encoding";

// Two habits of the library that this server cannot live with:
//   - it waits for a body until its time limit where a request states no length, although such a
//     request has none (RFC 9112, 6.3);
//   - it compresses every text by itself, which holds back streams until they end and packs the
//     dashboard's files a second time.
// The request is the server's own object and not const; only the hook that calls this sees it so.
void Tame(const httplib::Request& request) {
  auto& headers = const_cast<httplib::Request&>(request).headers;
  if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
    headers.emplace("Content-Length", "0");
  }
  headers.erase(kAcceptsKey);
  if (request.has_header("Accept-Encoding")) {
    headers.emplace(kAcceptsKey, request.get_header_value("Accept-Encoding"));
    headers.erase("Accept-Encoding");
  }
}

Call MakeCall(const httplib::Request& request, const std::vector<std::string>& names) {
  Call call;
  call.address = request.remote_addr;
  call.request_id = RandomHex(8);
  call.body = request.body;
  for (size_t i = 0; i < names.size(); ++i) {
    call.path[names[i]] = request.matches[i + 1].str();
  }
  for (const auto& [key, value] : request.params) {
    call.query.emplace(key, value);
  }
  for (const auto& [key, value] : request.headers) {
    std::string name = key;
    std::ranges::transform(
        name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    call.headers.emplace(name == kAcceptsKey ? "accept-encoding" : std::move(name), value);
  }
  return call;
}

void SendProblem(httplib::Response& response, const Problem& problem, const std::string& id) {
  response.status = problem.status;
  if (problem.status == 401) {
    response.set_header("WWW-Authenticate", "Bearer realm=\"tide\"");
  }
  if (problem.retryable) {
    response.set_header("Retry-After", "1");
  }
  response.set_header("Tide-Request-Id", id);
  response.set_content(ProblemJson(problem, id), std::string(kProblemType));
}

class HttplibSink final : public BodySink {
 public:
  HttplibSink(httplib::DataSink& sink, const ViewStore& store) : sink_(sink), store_(store) {}
  bool Write(std::string_view data) override {
    return !store_.stopped() && (data.empty() || sink_.write(data.data(), data.size()));
  }
  bool Alive() override { return !store_.stopped() && sink_.is_writable(); }

 private:
  httplib::DataSink& sink_;
  const ViewStore& store_;
};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Routes routes, const App& app)
      : options_(std::move(options)),
        routes_(std::move(routes)),
        app_(app),
        auth_(app.auth),
        store_(app.store) {
    const auto threads = static_cast<size_t>(options_.max_streams) + kShortRequests;
    http_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    http_.set_keep_alive_max_count(100);
    http_.set_payload_max_length(kMaxBody);
    http_.set_default_headers(kSecurityHeaders);
    http_.set_tcp_nodelay(true);
    // The default lets a second process share the port silently.
    http_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    InstallGuards();
    for (const Route& route : routes_) {
      Install(route);
    }
  }

  Result<int> Listen() {
    int port = options_.port;
    const bool bound = port == 0 ? (port = http_.bind_to_any_port(options_.host)) > 0
                                 : http_.bind_to_port(options_.host, port);
    if (!bound) {
      return Fail(ErrorCode::kUnavailable,
                  "cannot listen on " + options_.host + ":" + std::to_string(options_.port) + ": " +
                      std::generic_category().message(errno) +
                      "; stop what holds it or choose another port with --listen");
    }
    return port;
  }

  void Run() { http_.listen_after_bind(); }
  void Stop() { http_.stop(); }

 private:
  void InstallGuards() {
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          if (HostAllowed(request.get_header_value("Host"))) {
            Tame(request);
            return httplib::Server::HandlerResponse::Unhandled;
          }
          // A page of another site whose name was pointed here must learn nothing.
          SendProblem(response,
                      RefuseStatus(421,
                                   "unknown_host",
                                   "this server does not answer to that Host; use localhost, or "
                                   "start tide-api with --allow-host NAME")
                          .error(),
                      RandomHex(8));
          return httplib::Server::HandlerResponse::Handled;
        });
    http_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) {
        return;
      }
      Problem problem{.status = response.status,
                      .code = response.status == 404 ? "not_found" : "bad_request",
                      .detail = "cannot understand this request",
                      .retryable = false,
                      .errors = {}};
      if (response.status == 404) {
        problem.detail = "there is nothing at " + request.method + " " + request.path;
      } else if (response.status == 413) {
        problem.code = "too_large";
        problem.detail = "the body may have up to 1 MiB";
      }
      SendProblem(response, problem, RandomHex(8));
    });
    http_.set_exception_handler([](const httplib::Request& request,
                                   httplib::Response& response,
                                   const std::exception_ptr& /*what*/) {
      const std::string id = RandomHex(8);
      log::Failure("request failed", {{"path", request.path}, {"request_id", id}});
      SendProblem(response,
                  ToProblem({ErrorCode::kInternal, "tide-api failed; its log has the details"}),
                  id);
    });
  }

  void Install(const Route& route) {
    std::vector<std::string> names;
    const std::string expression = Expression(route.pattern, names);
    const auto handler = [this, &route, names](const httplib::Request& request,
                                               httplib::Response& response) {
      Answer(route, MakeCall(request, names), response);
    };
    if (route.method == "POST") {
      http_.Post(expression, handler);
    } else if (route.method == "PUT") {
      http_.Put(expression, handler);
    } else if (route.method == "PATCH") {
      http_.Patch(expression, handler);
    } else if (route.method == "DELETE") {
      http_.Delete(expression, handler);
    } else {
      http_.Get(expression, handler);
    }
  }

  void Answer(const Route& route, Call call, httplib::Response& response) {
    if (const auto stale = store_.StaleSeconds(); stale && route.pattern.starts_with("/v1/")) {
      response.set_header("Tide-Stale", std::to_string(*stale));
    }
    if (const auto refused = Authorise(route, call)) {
      SendProblem(response, *refused, call.request_id);
      return;
    }
    auto outcome = route.handler(call);
    if (!outcome) {
      if (outcome.error().status >= 500 && !outcome.error().retryable) {
        log::Warning("request failed",
                     {{"path", route.pattern},
                      {"code", outcome.error().code},
                      {"detail", outcome.error().detail},
                      {"request_id", call.request_id}});
      }
      SendProblem(response, outcome.error(), call.request_id);
      return;
    }
    Send(std::move(*outcome), call, response);
  }

  void Send(Reply reply, const Call& call, httplib::Response& response) {
    response.status = reply.status;
    response.set_header("Tide-Request-Id", call.request_id);
    const auto named = [&reply](std::string_view name) {
      return std::ranges::any_of(reply.headers,
                                 [name](const auto& header) { return header.first == name; });
    };
    if (!named("Cache-Control")) {
      response.set_header("Cache-Control", named("ETag") ? "private, no-cache" : "no-store");
    }
    for (const auto& [name, value] : reply.headers) {
      response.set_header(name, value);
    }
    if (!reply.stream) {
      if (reply.status != 304) {
        response.set_content(reply.body, reply.content_type);
      }
      return;
    }
    response.set_header("X-Accel-Buffering", "no");  // a proxy must pass pieces on at once
    response.set_chunked_content_provider(
        reply.content_type,
        [this, stream = std::move(reply.stream)](size_t, httplib::DataSink& data) {
          HttplibSink sink(data, store_);
          stream(sink);
          data.done();
          return true;
        });
  }

  [[nodiscard]] bool HostAllowed(const std::string& authority) const {
    const std::string host = HostName(authority);
    return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == options_.host ||
           std::ranges::find(options_.allowed_hosts, host) != options_.allowed_hosts.end();
  }

  // Fills in call.who, or says why not.
  std::optional<Problem> Authorise(const Route& route, Call& call) {
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
    const bool has_token = authorization.starts_with(kBearer);
    const auto who = auth_.FromToken(has_token ? authorization.substr(kBearer.size())
                                               : CookieValue(call.Header("cookie"), kSessionCookie),
                                     call.address);
    if (!who) {
      return ToProblem(who.error());
    }
    // A browser sends the cookie whoever made the page; only the Origin tells.
    if (!has_token && route.method != "GET" && !same_origin) {
      return ToProblem({ErrorCode::kPermissionDenied,
                        "a change made with a session needs the Origin of this server"});
    }
    call.operation = *route.access;
    call.who = who->actor;
    call.people = who->people;
    // Of one's own, which needs least: how the caller stands to a job is looked at when it is
    // found.
    if (const Status allowed = CheckAllowed(call.who, call.operation, Relation::kOwn); !allowed) {
      if (const Status recorded = RecordAudit(app_, call, {"", "", allowed}); !recorded) {
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
  httplib::Server http_;
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
