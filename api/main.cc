// tide-api: the HTTP side of Tide. Keeps no state of its own; see README.md.

#include <arpa/inet.h>
#include <malloc.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

#include "api/alerts/webhook.h"
#include "api/exec/exec_sessions.h"
#include "api/http/server.h"
#include "api/http/static_files.h"
#include "api/upstream/access.h"
#include "api/upstream/grpc_upstream.h"
#include "api/upstream/images.h"
#include "common/base/secret_file.h"
#include "common/log/log.h"
#include "common/rpc/security_flags.h"

namespace tide::api {
namespace {

// Exit codes, the same for every program of Tide.
constexpr int kUsage = 2;
constexpr int kBadFile = 3;
constexpr int kCannotListen = 6;
// Larger pieces, as bodies, go back to the system when they are freed. By default the library keeps
// them, for each of many threads.
constexpr int kReturnedBytes = 128 << 10;
// Idle connections are not worth waiting for: there is no state to write.
constexpr auto kStopTime = std::chrono::seconds(1);

struct Options {
  std::string scheduler;
  std::string listen = "127.0.0.1:7070";
  CertificateFiles https;
  bool insecure_http = false;
  std::string web_dir;
  rpc::SecurityOptions security;
  std::string log_format = "text";
  std::string audit_log;
  WebhookOptions webhook;
  std::string webhook_secret_file;
  int exec_idle_s = 60;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> proxies;
  std::string proxy_secret_file;
  std::string proxy_user_header;
  int max_streams = 192;
  int user_streams = 32;
  int user_requests = RequestSlots::kOfOneUser;
  int64_t user_submits = Allowances::kSubmits;
  int64_t user_log_mib = Allowances::kLogBytes >> 20;
  size_t user_exec = ExecSessions::Limits().of_one_user;
};

int Complain(int exit_code, const std::string& message) {
  std::fprintf(stderr, "tide-api: %s\n", message.c_str());
  return exit_code;
}

void Describe(CLI::App& app, Options& options) {
  app.set_version_flag("--version", TIDE_VERSION);
  app.add_option("--scheduler",
                 options.scheduler,
                 "gRPC address, as unix:/run/tide/scheduler.sock; several as a,b")
      ->required();
  app.add_option("--listen", options.listen, "HOST:PORT to serve on; port 0 = any")
      ->capture_default_str();
  auto* const chain = app.add_option(
      "--https-cert", options.https.chain, "PEM file: the server's certificate and its chain");
  auto* const key = app.add_option("--https-key", options.https.key, "PEM file: its key");
  chain->needs(key);
  key->needs(chain);
  app.add_flag("--insecure-http",
               options.insecure_http,
               "speak plain HTTP beyond this machine: tokens can be listened to");
  app.add_option("--web-dir", options.web_dir, "folder of the built dashboard (web/dist)");
  rpc::AddSecurityFlags(app, options.security);
  app.add_option("--audit-log",
                 options.audit_log,
                 "file that records who ran commands in tasks; none without it");
  auto* const webhook = app.add_option(
      "--webhook", options.webhook.url, "address to which alerts are posted, as https://HOST/PATH");
  auto* const signs = app.add_option(
      "--webhook-secret-file", options.webhook_secret_file, "what signs them (Tide-Signature)");
  auto* const state = app.add_option(
      "--webhook-state", options.webhook.state, "file that remembers which alerts were taken");
  app.add_option("--webhook-ca", options.webhook.ca, "PEM file: authorities of its certificate")
      ->needs(webhook);
  webhook->needs(signs)->needs(state);
  signs->needs(webhook);
  state->needs(webhook);
  app.add_option("--exec-idle-s",
                 options.exec_idle_s,
                 "commands in tasks whose output nobody reads are ended after so long")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option(
      "--allow-host", options.allowed_hosts, "another name in Host headers to answer to");
  auto* const proxies = app.add_option(
      "--trust-proxy",
      options.proxies,
      "address or range of a proxy that says where requests come from (X-Forwarded-For, -Proto)");
  auto* const secret = app.add_option("--proxy-secret-file",
                                      options.proxy_secret_file,
                                      "what that proxy sends in header Tide-Proxy-Secret");
  secret->needs(proxies);
  app.add_option("--proxy-user-header",
                 options.proxy_user_header,
                 "header in which it names the user whom it has signed in")
      ->needs(secret);
  app.add_option("--max-streams", options.max_streams, "live streams and log readers at once")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  app.add_option("--user-streams", options.user_streams, "of them, for one user")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  app.add_option("--user-requests", options.user_requests, "requests of one user at once")
      ->check(CLI::PositiveNumber);
  app.add_option("--user-submits", options.user_submits, "submissions of one user in a minute")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--user-log-mib", options.user_log_mib, "MiB of logs for one user in a minute")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--user-exec", options.user_exec, "commands in tasks of one user at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format)->check(CLI::IsMember({"text", "json"}));
}

bool IsLoopback(const std::string& host) {
  in_addr v4 = {};
  const bool is_127 =
      ::inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24U) == 127;
  return host == "localhost" || host == "::1" || is_127;
}

Result<ServerOptions> ParseListen(const Options& options) {
  ServerOptions server;
  const size_t colon = options.listen.rfind(':');
  char* end = nullptr;
  const long port =
      colon == std::string::npos ? -1 : std::strtol(options.listen.c_str() + colon + 1, &end, 10);
  if (port < 0 || port > 65535 || *end != '\0' || colon == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--listen " + options.listen + " is not HOST:PORT, as 127.0.0.1:7070");
  }
  server.host = HostName(options.listen);
  const bool is_plain = options.https.chain.empty();
  if (is_plain && !IsLoopback(server.host) && !options.insecure_http) {
    return Fail(ErrorCode::kInvalidArgument,
                "--listen " + options.listen +
                    " is reached from other machines: give a certificate with --https-cert and "
                    "--https-key, or listen on 127.0.0.1 behind a proxy with TLS; "
                    "--insecure-http lets everybody on the way read tokens, secrets and logs");
  }
  server.port = static_cast<int>(port);
  server.allowed_hosts = options.allowed_hosts;
  server.max_streams = options.max_streams;
  return server;
}

Result<TrustedProxies> OpenProxies(const Options& options) {
  ProxyTrust trust;
  for (const std::string& text : options.proxies) {
    TIDE_ASSIGN(const AddressRange range, AddressRange::Parse(text));
    trust.addresses.push_back(range);
  }
  if (!options.proxy_secret_file.empty()) {
    TIDE_ASSIGN(trust.secret, ReadSecretFile("the secret of the proxy", options.proxy_secret_file));
  }
  if (!trust.addresses.empty() && trust.secret.empty()) {
    log::Warning(
        "--trust-proxy without --proxy-secret-file: whatever runs at those addresses can "
        "say that its requests come from elsewhere");
  }
  trust.user_header = options.proxy_user_header;
  return TrustedProxies(std::move(trust));
}

// Null for plain HTTP.
Result<std::unique_ptr<ServerTls>> OpenTls(const Options& options, const std::string& host) {
  if (!options.https.chain.empty()) {
    return ServerTls::Open(options.https);
  }
  if (!IsLoopback(host)) {
    log::Warning("plain HTTP beyond this machine: tokens, secrets and logs can be listened to",
                 {{"listen", options.listen}});
  }
  return nullptr;
}

// Null where alerts are posted nowhere.
Result<std::unique_ptr<Webhook>> OpenWebhook(const Options& options, const ViewStore& store) {
  if (options.webhook.url.empty()) {
    return nullptr;
  }
  WebhookOptions webhook = options.webhook;
  TIDE_ASSIGN(webhook.secret,
              ReadSecretFile("the secret of the webhook", options.webhook_secret_file));
  return Webhook::Open(store, webhook);
}

// Every thread inherits the mask, so that only WaitForStopSignal sees these.
sigset_t BlockStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return signals;
}

void WaitForStopSignal(const sigset_t& signals) {
  int received = 0;
  ::sigwait(&signals, &received);
  log::Info("stopping", {{"signal", received}});
}

int Serve(const Options& options, const ServerOptions& server_options, Routes web) {
  auto addresses = rpc::SplitAddresses(options.scheduler);
  if (!addresses) {
    return Complain(kUsage, "--scheduler " + addresses.error().message);
  }
  const auto security =
      rpc::Security::FromOptions(options.security, {rpc::Role::kApi, ""}, *addresses);
  if (!security) {
    return Complain(kUsage, security.error().message);
  }
  Schedulers schedulers(std::move(*addresses), *security);
  const sigset_t signals = BlockStopSignals();

  ViewStore store;
  StreamSlots streams(options.max_streams, options.user_streams);
  const auto scheduler = MakeGrpcScheduler(schedulers, *security);
  Authenticator auth(store, *scheduler);
  const auto agents = MakeGrpcAgents(*security);
  const auto images = MakeGrpcImages(*security);
  App app{store, *scheduler, *agents, *images, auth, streams};
  app.requests = std::make_shared<RequestSlots>(options.user_requests);
  app.allowances = std::make_shared<Allowances>(options.user_submits, options.user_log_mib << 20);
  auto proxies = OpenProxies(options);
  if (!proxies) {
    return Complain(kBadFile, proxies.error().message);
  }
  app.proxies = std::make_shared<TrustedProxies>(*std::move(proxies));
  const auto access = MakeGrpcAccess(*security);
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<ExecSessions> exec;
  if (!options.audit_log.empty()) {
    auto opened = AuditLog::Open(options.audit_log);
    if (!opened) {
      return Complain(kBadFile, opened.error().message);
    }
    audit = *std::move(opened);
    ExecSessions::Limits limits;
    limits.idle = std::chrono::seconds(options.exec_idle_s);
    limits.of_one_user = options.user_exec;
    exec = std::make_unique<ExecSessions>(*access, *audit, limits);
    app.exec = exec.get();
  }
  const auto tls = OpenTls(options, server_options.host);
  if (!tls) {
    return Complain(kBadFile, tls.error().message);
  }
  app.tls = tls->get();
  if (!options.webhook.url.empty()) {
    app.alerts = options.webhook.counters;
  }
  Routes routes = AllRoutes(app);
  std::ranges::move(web, std::back_inserter(routes));
  Server server(server_options, std::move(routes), app);
  const auto port = server.Listen();
  if (!port) {
    return Complain(kCannotListen, port.error().message);
  }
  const auto webhook = OpenWebhook(options, store);
  if (!webhook) {
    return Complain(kBadFile, webhook.error().message);
  }
  Watcher watcher(schedulers, *security, store);
  auto serving = std::async(std::launch::async, [&server] { server.Run(); });
  log::Info("listening", {{"host", server_options.host}, {"port", *port}});
  WaitForStopSignal(signals);
  if (exec != nullptr) {
    exec->EndAll("the API server stopped");
  }
  store.Stop();
  server.Stop();
  const bool posting = *webhook != nullptr && !(*webhook)->WaitForEnd(kStopTime);
  if (posting || serving.wait_for(kStopTime) != std::future_status::ready) {
    std::fflush(nullptr);
    std::_Exit(0);
  }
  return 0;
}

int Main(int argc, char** argv) {
  // There is no other thread yet.
  ::mallopt(M_MMAP_THRESHOLD, kReturnedBytes);  // NOLINT(concurrency-mt-unsafe)
  Options options;
  CLI::App flags("tide-api serves Tide's HTTP API and dashboard", "tide-api");
  Describe(flags, options);
  try {
    flags.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return flags.exit(error) == 0 ? 0 : kUsage;
  }
  log::Init("api",
            options.log_format == "json" ? log::Format::kJson : log::Format::kText,
            log::Level::kInfo);
  const auto server = ParseListen(options);
  if (!server) {
    return Complain(kUsage, server.error().message);
  }
  auto web =
      options.web_dir.empty() ? Result<Routes>(PlaceholderRoutes()) : StaticRoutes(options.web_dir);
  if (!web) {
    return Complain(kBadFile, web.error().message);
  }
  return Serve(options, *server, std::move(*web));
}

}  // namespace
}  // namespace tide::api

int main(int argc, char** argv) {
  return tide::api::Main(argc, argv);
}
