#pragma once
// The HTTP server: turns a table of routes into answers. Checks host, sign-in and role before a
// handler runs; turns every failure into a problem document.

#include <memory>
#include <string>
#include <vector>

#include "api/gate/gate.h"
#include "api/http/routes.h"

namespace tide::api {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 7070;                         // 0 = any free one
  std::vector<std::string> allowed_hosts;  // names for the Host header besides loopback and `host`
  int max_streams = 192;
  GateLimits gate;
};

class Server {
 public:
  // `app` must outlive it.
  Server(ServerOptions options, Routes routes, const App& app);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the port and returns its number. Errors: kUnavailable.
  Result<int> Listen();
  // Serves until Stop().
  void Run();
  // From any thread.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tide::api
