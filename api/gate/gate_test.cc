// The gate with one worker: what holds it, holds up everybody.

#include "api/gate/gate.h"

#include <catch2/catch.hpp>
#include <list>
#include <thread>

#include "api/testing/raw_client.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;
using testing::RawClient;

constexpr size_t kLarge = 16U << 20U;  // more than a loopback connection holds for its client

// Answers with method, path and body; /large with much, /stream until the client is gone.
class Echo final : public Service {
 public:
  std::expected<size_t, Reply> Admit(const Head& head, const std::string& address) override {
    if (head.path == "/private" || address != "127.0.0.1") {
      return std::unexpected(Refuse({401, "unauthenticated", "sign in"}));
    }
    return head.path == "/small" ? 8 : 1000;
  }
  Reply Answer(Request request) override {
    Reply reply;
    reply.body = request.head.method + " " + request.head.path + " " + request.body;
    if (request.head.path == "/large") {
      reply.body.assign(kLarge, 'x');
    } else if (request.head.path == "/stream") {
      reply.stream = [](BodySink& sink) {
        while (sink.Alive() && sink.Write(std::string(65536, 'x'))) {
        }
      };
    } else if (request.head.path == "/two") {
      reply.stream = [](BodySink& sink) {
        static_cast<void>(sink.Write("one,") && sink.Write("") && sink.Write("two"));
      };
    }
    return reply;
  }
  [[nodiscard]] bool StandsForMany(const std::string& address) const override {
    return address == proxy;
  }
  Reply Refuse(const Refusal& refusal) override {
    Reply reply;
    reply.status = refusal.status;
    reply.body = refusal.detail;
    return reply;
  }

  std::string proxy;  // its address
};

struct Served {
  explicit Served(const GateLimits& limits = {}, const std::string& proxy = "")
      : gate(limits, 1, echo, counters) {
    echo.proxy = proxy;
    port = gate.Listen("127.0.0.1", 0).value();
    thread = std::thread([this] { gate.Run(); });
  }
  ~Served() {
    gate.Stop();
    thread.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // Returns the answer to a client that comes now.
  [[nodiscard]] std::string Ask(const std::string& request) const {
    RawClient client(port);
    client.Send(request);
    return client.ReadAnswer();
  }
  // A worker gives a connection back some time after its answer was read.
  void AwaitWorkers() const {
    while (counters.busy != 0) {
      std::this_thread::yield();
    }
  }
  [[nodiscard]] bool Serves() const {
    return Ask("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").ends_with("GET /a ");
  }

  Echo echo;
  GateCounters counters;
  Gate gate;
  int port = 0;
  std::thread thread;
};

int StatusOf(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9)) : 0;
}

TEST_CASE("requests follow each other on one connection", "[api][gate]") {
  const Served served;
  RawClient client(served.port);
  client.Send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2");
  CHECK(client.ReadAnswer().ends_with("GET /a "));
  client.Send("\r\n\r\nhiPUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n");
  CHECK(client.ReadAnswer().ends_with("POST /b hi"));
  client.Send("yo\r\n0\r\n\r\nDELETE /d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  CHECK(client.ReadAnswer().ends_with("PUT /c yo"));
  const std::string last = client.ReadAll();
  CHECK_THAT(last, Catch::Contains("Connection: close\r\n") && Catch::EndsWith("DELETE /d "));
}

TEST_CASE("answers take the form that the client reads", "[api][gate]") {
  const Served served;
  RawClient client(served.port);
  client.Send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK_THAT(client.ReadUntil("\r\n\r\n"), Catch::Contains("Content-Length: 8\r\n"));
  CHECK_THAT(client.ReadAnswer(), Catch::StartsWith("HTTP/1.1 200 OK\r\n"));
  RawClient chunks(served.port);
  chunks.Send("GET /two HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK_THAT(chunks.ReadUntil("\r\n0\r\n\r\n"),
             Catch::EndsWith("\r\n\r\n4\r\none,\r\n3\r\ntwo\r\n0\r\n\r\n"));
  RawClient old(served.port);
  old.Send("GET /two HTTP/1.0\r\n\r\n");
  CHECK_THAT(old.ReadAll(), Catch::EndsWith("\r\n\r\none,two") && !Catch::Contains("chunked"));
}

TEST_CASE("no worker is held by what is no whole request", "[api][gate]") {
  const Served served;
  std::list<RawClient> waiting;
  for (const char* text :
       {"",
        "G",
        "GET / HTTP/1.1\r\nHost: h\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx"}) {
    for (int i = 0; i < 20; ++i) {
      waiting.emplace_back(served.port).Send(text);
    }
  }
  CHECK(served.Serves());
}

TEST_CASE("a request that does not come whole in time is refused", "[api][gate]") {
  GateLimits limits;
  limits.head = limits.whole_body = limits.idle = milliseconds(50);
  const Served served(limits);
  CHECK(StatusOf(served.Ask("GET / HT")) == 408);
  CHECK(StatusOf(served.Ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf")) == 408);
  RawClient idle(served.port);
  CHECK(idle.ReadAll().empty());
  RawClient idle_again(served.port);
  idle_again.Send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(idle_again.ReadAll().ends_with("GET /a "));
  CHECK(served.counters.overdue >= 4);
}

TEST_CASE("a head may be of so many bytes", "[api][gate]") {
  const Served served;
  CHECK(StatusOf(served.Ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(kHeadMax, 'x'))) ==
        431);
  std::string lines;
  while (lines.size() < kHeadMax) {
    lines += "X: 0123456789\r\n";
  }
  CHECK(StatusOf(served.Ask("GET / HTTP/1.1\r\nHost: h\r\n" + lines)) == 431);
  CHECK(StatusOf(served.Ask("GARBAGE\r\n\r\n")) == 400);
  CHECK(served.Serves());
}

TEST_CASE("who may not is told before the body, and without it", "[api][gate]") {
  const Served served;
  RawClient client(served.port);
  client.Send("POST /private HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
  CHECK(StatusOf(client.ReadAll()) == 401);
  RawClient polite(served.port);
  polite.Send("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  CHECK(polite.ReadUntil("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  polite.Send("hi");
  CHECK(polite.ReadAnswer().ends_with("POST /b hi"));
}

TEST_CASE("the answer comes through to a client that goes on sending", "[api][gate]") {
  const Served served;
  RawClient client(served.port);
  client.Send("POST /private HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" +
              std::string(1'000'000, 'x'));
  CHECK(StatusOf(client.ReadAll()) == 401);
}

TEST_CASE("bodies are counted as they come", "[api][gate]") {
  const Served served;
  const std::string post = "POST /b HTTP/1.1\r\nHost: h\r\n";
  const std::string small = "POST /small HTTP/1.1\r\nHost: h\r\n";
  CHECK(StatusOf(served.Ask(post + "Content-Length: 9999999\r\n\r\n")) == 413);
  CHECK(StatusOf(served.Ask(small + "Content-Length: 9\r\n\r\n")) == 413);
  RawClient endless(served.port);
  endless.Send(small + "Transfer-Encoding: chunked\r\n\r\n");
  endless.Send("5\r\nhello\r\n5\r\nhello\r\n");
  CHECK(StatusOf(endless.ReadAll()) == 413);
  CHECK(StatusOf(served.Ask(post + "Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\nhi")) ==
        415);
  CHECK(StatusOf(served.Ask(post + "Transfer-Encoding: chunked\r\n\r\nno chunk")) == 400);
}

TEST_CASE("a large answer goes out as fast as it is taken", "[api][gate]") {
  GateLimits limits;
  limits.held_bytes = 2 * kLarge;
  const Served served(limits);
  RawClient reader(served.port, 4096);
  reader.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(reader.ReadUntil("\r\n") == "HTTP/1.1 200 OK\r\n");
  CHECK(served.Serves());
  CHECK(reader.ReadAnswer().size() > kLarge);
}

TEST_CASE("a client that takes no answer holds no worker, and is closed", "[api][gate]") {
  GateLimits limits;
  limits.stuck = milliseconds(200);
  limits.held_bytes = 2 * kLarge;  // so that nothing else closes it
  const Served served(limits);
  RawClient stuck(served.port, 4096);
  stuck.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(stuck.ReadUntil("\r\n") == "HTTP/1.1 200 OK\r\n");
  CHECK(served.Serves());
  while (served.counters.overdue == 0) {
    CHECK(served.Serves());
  }
  CHECK(stuck.ReadAll().size() < kLarge);
}

TEST_CASE("a stream to a client that does not read ends", "[api][gate]") {
  GateLimits limits;
  limits.stuck = milliseconds(50);
  const Served served(limits);
  RawClient stuck(served.port, 4096);
  stuck.Send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(stuck.ReadUntil("\r\n") == "HTTP/1.1 200 OK\r\n");
  CHECK(served.Serves());  // once the only worker is free again
}

TEST_CASE("a stream ends with its client", "[api][gate]") {
  const Served served;
  {
    RawClient client(served.port);
    client.Send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK_FALSE(client.ReadUntil("xxxx").empty());
  }
  CHECK(served.Serves());
}

TEST_CASE("the longest idle makes room", "[api][gate]") {
  GateLimits limits;
  limits.connections = 4;
  limits.of_one_address = GENERATE(2U, 4U);
  const Served served(limits);
  std::list<RawClient> idle;
  for (size_t i = 0; i < limits.of_one_address; ++i) {
    idle.emplace_back(served.port).Send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(idle.back().ReadAnswer().ends_with("GET /a "));
  }
  served.AwaitWorkers();
  CHECK(served.Serves());
  CHECK(idle.front().ReadAll().empty());
  idle.back().Send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(idle.back().ReadAnswer().ends_with("GET /b "));
  CHECK(served.counters.crowded >= 1);
}

TEST_CASE("a proxy may have more connections than one address", "[api][gate]") {
  GateLimits limits;
  limits.of_one_address = 2;
  const Served served(limits, "127.0.0.1");
  std::list<RawClient> idle;
  for (int i = 0; i < 4; ++i) {
    idle.emplace_back(served.port).Send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(idle.back().ReadAnswer().ends_with("GET /a "));
  }
  idle.front().Send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(idle.front().ReadAnswer().ends_with("GET /b "));
}

TEST_CASE("what all parts of requests hold together is bounded", "[api][gate]") {
  GateLimits limits;
  limits.held_bytes = 256U << 10U;
  const Served served(limits);
  std::list<RawClient> parts;
  for (int i = 0; i < 20; ++i) {
    parts.emplace_back(served.port).Send("GET / HTTP/1.1\r\nX: " + std::string(30'000, 'x'));
  }
  CHECK(parts.front().ReadAll().empty());
  CHECK(served.Serves());
}

TEST_CASE("what workers have closes nobody who waits", "[api][gate]") {
  GateLimits limits;
  limits.held_bytes = 1000;
  const Served served(limits);
  std::string body(900, 'b');
  RawClient busy(served.port);
  busy.Send("POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n" + body);
  CHECK_FALSE(busy.ReadUntil("xxxx").empty());
  RawClient waiting(served.port);
  waiting.Send("GET /a HTTP/1.1\r\nHost: h\r\nX: " + std::string(300, 'x'));
  busy = RawClient(served.port);  // the stream ends
  busy.Send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  CHECK(busy.ReadAnswer().ends_with("GET /b "));
  waiting.Send("\r\n\r\n");
  CHECK(waiting.ReadAnswer().ends_with("GET /a "));
}

TEST_CASE("what workers have together is bounded", "[api][gate]") {
  GateLimits limits;
  limits.busy_bytes = 1000;
  const Served served(limits);
  RawClient second(served.port);
  const std::string head = " HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n";
  second.Send("POST /a" + head + "Expect: 100-continue\r\n\r\n");
  CHECK(second.ReadUntil("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  served.AwaitWorkers();
  RawClient first(served.port);
  first.Send("POST /stream" + head + "\r\n" + std::string(900, 'b'));
  CHECK_FALSE(first.ReadUntil("xxxx").empty());
  second.Send(std::string(900, 'b'));
  CHECK(second.ReadAnswer().starts_with("HTTP/1.1 503 "));
}

TEST_CASE("a gate that stops before it runs does not run", "[api][gate]") {
  Echo echo;
  GateCounters counters;
  Gate gate({}, 1, echo, counters);
  CHECK(gate.Listen("127.0.0.1", 0).has_value());
  gate.Stop();
  gate.Run();
}

TEST_CASE("a port that is taken is said so", "[api][gate]") {
  const Served served;
  Echo echo;
  GateCounters counters;
  Gate gate({}, 1, echo, counters);
  const auto port = gate.Listen("127.0.0.1", served.port);
  REQUIRE_FALSE(port);
  CHECK_THAT(port.error().message, Catch::Contains("Address already in use"));
  CHECK_FALSE(gate.Listen("no.such.host.invalid", 0));
}

}  // namespace
}  // namespace tide::api
