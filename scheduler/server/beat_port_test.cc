#include "scheduler/server/beat_port.h"

#include <catch2/catch.hpp>
#include <vector>

#include "scheduler/server/testing/beat_sender.h"

namespace tide {
namespace {

struct Beat {
  NodeId node;
  uint64_t number = 0;
};

// A port that answers all heartbeats but those that are to be left without.
struct Server {
  std::unique_ptr<BeatPort> port;
  Mutex mutex;
  std::vector<Beat> beats TIDE_GUARDED_BY(mutex);

  static constexpr uint64_t kNotAnswered = 666;

  explicit Server(const std::string& listen = "127.0.0.1:0") {
    auto opened = BeatPort::Open(listen);
    REQUIRE(opened);
    port = *std::move(opened);
    port->Start([this](NodeId node, const tide::v1::Heartbeat& heartbeat) {
      const MutexLock lock(mutex);
      beats.push_back({node, heartbeat.number()});
      tide::v1::SchedulerMessage answer;
      if (heartbeat.number() != kNotAnswered) {
        answer.mutable_ack()->set_heartbeat(heartbeat.number());
      }
      return answer;
    });
  }
  std::vector<uint64_t> NumbersOf(NodeId node) {
    const MutexLock lock(mutex);
    std::vector<uint64_t> numbers;
    for (const Beat& beat : beats) {
      if (beat.node == node) {
        numbers.push_back(beat.number);
      }
    }
    return numbers;
  }
};

struct Client : testing::BeatSender {
  tide::v1::BeatPort offer;

  Client(Server& server, NodeId node, const std::string& host = "127.0.0.1")
      : Client(*server.port->Admit(node), host) {}

  // Number of the heartbeat that the next datagram answers.
  [[nodiscard]] uint64_t Answered() { return Answer().ack().heartbeat(); }

 private:
  Client(const tide::v1::BeatPort& admitted, const std::string& host)
      : BeatSender(admitted, host), offer(admitted) {}
};

TEST_CASE("a heartbeat is its node's, and is answered by its number") {
  Server server;
  Client first(server, NodeId(1));
  Client second(server, NodeId(2));
  first.Say(first.Sealed(1));
  CHECK(first.Answered() == 1);
  second.Say(second.Sealed(7));
  CHECK(second.Answered() == 7);
  first.Say(first.Sealed(2));
  CHECK(first.Answered() == 2);
  CHECK(server.NumbersOf(NodeId(1)) == std::vector<uint64_t>{1, 2});
  CHECK(server.NumbersOf(NodeId(2)) == std::vector<uint64_t>{7});
}

TEST_CASE("what is forged, repeated or too late is nobody's heartbeat") {
  Server server;
  Client client(server, NodeId(1));
  client.Say(client.Sealed(5));
  CHECK(client.Answered() == 5);

  client.Say("");
  client.Say("no datagram");
  client.Say(std::string(rpc::kDatagramBytesMost + 100, 'x'));
  client.Say(client.Sealed(5));  // again
  client.Say(client.Sealed(4));  // later than the one after it
  std::string changed = client.Sealed(6);
  changed.back() = static_cast<char>(changed.back() ^ 1);
  client.Say(changed);
  client.Say(
      client.sealer.Seal(client.session, rpc::Direction::kToServer, 7, "not understood \xff"));
  rpc::DatagramSession stranger = *rpc::DatagramSession::Make();
  client.Say(client.sealer.Seal(stranger, rpc::Direction::kToServer, 8, ""));
  stranger.id = client.session.id;
  client.Say(client.sealer.Seal(stranger, rpc::Direction::kToServer, 9, ""));

  client.Say(client.Sealed(10));
  CHECK(client.Answered() == 10);
  CHECK(server.NumbersOf(NodeId(1)) == std::vector<uint64_t>{5, 10});
}

TEST_CASE("a heartbeat that is to have no answer gets none") {
  Server server;
  Client client(server, NodeId(1));
  client.Say(client.Sealed(Server::kNotAnswered));
  client.Say(client.Sealed(Server::kNotAnswered + 1));
  CHECK(client.Answered() == Server::kNotAnswered + 1);
  CHECK(server.NumbersOf(NodeId(1)).size() == 2);
}

TEST_CASE("a session that is over counts no more, others do") {
  Server server;
  Client gone(server, NodeId(1));
  Client stays(server, NodeId(1));
  gone.Say(gone.Sealed(1));
  CHECK(gone.Answered() == 1);
  server.port->Dismiss(gone.offer.session());
  server.port->Dismiss(gone.offer.session());
  gone.Say(gone.Sealed(2));
  stays.Say(stays.Sealed(3));
  CHECK(stays.Answered() == 3);
  CHECK(server.NumbersOf(NodeId(1)) == std::vector<uint64_t>{1, 3});
}

TEST_CASE("more than one look takes are all answered") {
  Server server;
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Client>(server, NodeId(i)));
    clients.back()->Say(clients.back()->Sealed(i + 1));
  }
  for (uint32_t i = 0; i < 200; ++i) {
    CHECK(clients[i]->Answered() == i + 1);
  }
}

TEST_CASE("an answer comes from the address that was asked") {
  Server server("0.0.0.0:0");
  // Its socket takes nothing from 127.0.0.1, from where the system would answer.
  Client client(server, NodeId(1), "127.0.0.2");
  client.Say(client.Sealed(1));
  CHECK(client.Answered() == 1);
}

}  // namespace
}  // namespace tide
