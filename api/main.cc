// tide-api: the HTTP side of Tide. Keeps no state of its own; see README.md.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

#include "api/exec/exec_sessions.h"
#include "api/http/server.h"
#include "api/http/static_files.h"
#include "api/upstream/access.h"
#include "api/upstream/grpc_upstream.h"
#include "api/upstream/images.h"
#include "common/log/log.h"
#include "common/rpc/rpc.h"

namespace tide::api {
namespace {

// Exit codes, the same for every program of Tide.
constexpr int kUsage = 2;
constexpr int kBadFile = 3;
constexpr int kCannotListen = 6;
// Idle connections are not worth waiting for: there is no state to write.
constexpr auto kStopTime = std::chrono::seconds(1);

struct Options {
  std::string scheduler;
  std::string listen = "127.0.0.1:7070";
  std::string web_dir;
  std::string cluster_token_file;
  std::string log_format = "text";
  std::string audit_log;
  int exec_idle_s = 60;
  std::vector<std::string> allowed_hosts;
  int max_streams = 192;
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
  app.add_option("--web-dir", options.web_dir, "folder of the built dashboard (web/dist)");
  app.add_option(
      "--cluster-token-file", options.cluster_token_file, "secret sent to Tide's daemons");
  app.add_option("--audit-log",
                 options.audit_log,
                 "file that records who ran commands in tasks; none without it");
  app.add_option("--exec-idle-s",
                 options.exec_idle_s,
                 "commands in tasks whose output nobody reads are ended after so long")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option(
      "--allow-host", options.allowed_hosts, "another name in Host headers to answer to");
  app.add_option("--max-streams", options.max_streams, "live streams and log readers at once")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format)->check(CLI::IsMember({"text", "json"}));
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
  server.port = static_cast<int>(port);
  server.allowed_hosts = options.allowed_hosts;
  server.max_streams = options.max_streams;
  return server;
}

Result<rpc::ClusterToken> ReadSecret(const std::string& path) {
  return path.empty() ? rpc::ClusterToken() : rpc::ClusterToken::FromFile(path);
}

void WaitForStopSignal(const sigset_t& signals) {
  int received = 0;
  ::sigwait(&signals, &received);
  log::Info("stopping", {{"signal", received}});
}

int Serve(const Options& options, const ServerOptions& server_options, Routes web) {
  auto secret = ReadSecret(options.cluster_token_file);
  if (!secret) {
    return Complain(kBadFile, secret.error().message);
  }
  auto addresses = rpc::SplitAddresses(options.scheduler);
  if (!addresses) {
    return Complain(kUsage, "--scheduler " + addresses.error().message);
  }
  Schedulers schedulers(std::move(*addresses));
  // Every thread inherits the mask, so that only WaitForStopSignal sees these.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  ViewStore store;
  StreamSlots streams(options.max_streams);
  const auto scheduler = MakeGrpcScheduler(schedulers, *secret);
  Authenticator auth(store, *scheduler);
  const auto agents = MakeGrpcAgents(*secret);
  const auto images = MakeGrpcImages(*secret);
  App app{store, *scheduler, *agents, *images, auth, streams};
  const auto access = MakeGrpcAccess(*secret);
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
    exec = std::make_unique<ExecSessions>(*access, *audit, limits);
    app.exec = exec.get();
  }
  Routes routes = AllRoutes(app);
  std::ranges::move(web, std::back_inserter(routes));
  Server server(server_options, std::move(routes), app);
  const auto port = server.Listen();
  if (!port) {
    return Complain(kCannotListen, port.error().message);
  }
  Watcher watcher(schedulers, *secret, store);
  auto serving = std::async(std::launch::async, [&server] { server.Run(); });
  log::Info("listening", {{"host", server_options.host}, {"port", *port}});
  WaitForStopSignal(signals);
  if (exec != nullptr) {
    exec->EndAll("the API server stopped");
  }
  store.Stop();
  server.Stop();
  if (serving.wait_for(kStopTime) != std::future_status::ready) {
    std::fflush(nullptr);
    std::_Exit(0);
  }
  return 0;
}

int Main(int argc, char** argv) {
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
