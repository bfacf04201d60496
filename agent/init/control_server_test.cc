#include "agent/init/control_server.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "agent/runtime/control_client.h"

namespace tide::agent {
namespace {

// A server in a folder with a name longer than a socket's path may be.
class Server {
 public:
  Server() {
    std::string top = "/tmp/tide-control-XXXXXX";
    REQUIRE(::mkdtemp(top.data()) != nullptr);
    top_ = top;
    folder_ = top + "/" + std::string(120, 'x');
    before_ = std::filesystem::current_path();
    REQUIRE(MakeDirs(folder_));
    std::filesystem::current_path(folder_);
    REQUIRE(server_.Listen());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(top_);
  }
  void Serve() {
    server_.Serve([this](const ControlRequest& request) {
      requests_.push_back(request);
      return TaskStatusToJson(status_);
    });
  }
  ControlClient Client() { return ControlClient::Connect(folder_).value(); }
  ControlServer& server() { return server_; }
  std::vector<ControlRequest>& requests() { return requests_; }
  TaskStatus& status() { return status_; }

 private:
  std::string top_;
  std::string folder_;
  std::filesystem::path before_;
  ControlServer server_;
  std::vector<ControlRequest> requests_;
  TaskStatus status_;
};

TEST_CASE("control: each request is understood and answered with the status") {
  using Op = ControlRequest::Op;
  Server server;
  server.status().error = "why";
  ControlClient client = server.Client();
  REQUIRE(client.Send(kStatusRequest));
  REQUIRE(client.Send(SignalRequest(10)));
  REQUIRE(client.Send(StopRequest(Duration::Millis(1500))));
  REQUIRE(client.Send(kKillRequest));
  server.Serve();
  REQUIRE(server.requests().size() == 4);
  CHECK(server.requests()[0].op == Op::kStatus);
  CHECK(server.requests()[1].op == Op::kSignal);
  CHECK(server.requests()[1].value == 10);
  CHECK(server.requests()[2].op == Op::kStop);
  CHECK(server.requests()[2].value == 1500);
  CHECK(server.requests()[3].op == Op::kKill);
  for (int i = 0; i < 4; ++i) {
    CHECK(client.Receive(Duration::Seconds(1)).value().error == "why");
  }
}

TEST_CASE("control: only watchers hear of changes") {
  Server server;
  ControlClient watcher = server.Client();
  ControlClient other = server.Client();
  REQUIRE(watcher.Send(kWatchRequest));
  REQUIRE(other.Send(kStatusRequest));
  server.Serve();
  CHECK(watcher.TakeNewest()->error.empty());
  CHECK(other.TakeNewest()->error.empty());
  TaskStatus changed;
  changed.error = "changed";
  server.server().Broadcast(TaskStatusToJson(changed));
  CHECK(watcher.TakeNewest()->error == "changed");
  CHECK_FALSE(other.TakeNewest().has_value());
}

TEST_CASE("control: nonsense closes only its own connection") {
  Server server;
  ControlClient bad = server.Client();
  ControlClient endless = server.Client();
  ControlClient good = server.Client();
  REQUIRE(bad.Send(R"({"op":"dance"})"));
  REQUIRE(endless.Send(std::string(70'000, 'x')));
  server.Serve();
  REQUIRE(good.Send(kStatusRequest));
  server.Serve();
  CHECK_FALSE(bad.TakeNewest().has_value());
  CHECK(bad.closed());
  CHECK_FALSE(endless.TakeNewest().has_value());
  CHECK(endless.closed());
  CHECK(good.TakeNewest().has_value());
  CHECK_FALSE(good.closed());
}

TEST_CASE("control: a watcher that does not read is dropped, and nobody waits for it") {
  Server server;
  ControlClient watcher = server.Client();
  REQUIRE(watcher.Send(kWatchRequest));
  server.Serve();
  for (int i = 0; i < 100; ++i) {
    server.server().Broadcast(std::string(65'536, ' '));
  }
  server.Serve();
  std::vector<pollfd> fds;
  server.server().AddTo(fds);
  CHECK(fds.size() == 1);
}

}  // namespace
}  // namespace tide::agent
