#include "agent/server/beat_channel.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <optional>

#include "agent/server/testing/agent_testing.h"

namespace tide::agent {
namespace {

// The scheduler's end, which answers when the test says so.
struct Port {
  rpc::DatagramPort port = *rpc::BindDatagrams("127.0.0.1:0");
  rpc::DatagramSession session = *rpc::DatagramSession::Make();
  rpc::DatagramSealer sealer;
  sockaddr_storage from{};
  socklen_t from_length = 0;
  std::atomic<uint64_t> answered = 0;  // number of the newest that the agent was told of
  std::unique_ptr<BeatChannel> channel;

  Port() {
    auto opened = BeatChannel::Open("ipv4:127.0.0.1:7071", Offer(), [this](auto answer) {
      answered = answer.ack().heartbeat();
    });
    REQUIRE(opened);
    channel = *std::move(opened);
  }

  [[nodiscard]] tide::v1::BeatPort Offer() const {
    tide::v1::BeatPort offer;
    offer.set_port(port.port);
    offer.set_session(session.id);
    offer.set_key(session.key);
    return offer;
  }

  // The next that comes.
  std::optional<rpc::DatagramSealer::Opened> Receive() {
    pollfd ready{port.socket.get(), POLLIN, 0};
    REQUIRE(::poll(&ready, 1, 10'000) == 1);
    std::array<char, 2'000> bytes{};
    from_length = sizeof from;
    void* any = &from;
    const ssize_t n = ::recvfrom(port.socket.get(),
                                 bytes.data(),
                                 bytes.size(),
                                 0,
                                 static_cast<sockaddr*>(any),
                                 &from_length);
    REQUIRE(n > 0);
    return sealer.Open(session, rpc::Direction::kToServer, {bytes.data(), static_cast<size_t>(n)});
  }

  void Say(const std::string& datagram) {
    void* any = &from;
    REQUIRE(::sendto(port.socket.get(),
                     datagram.data(),
                     datagram.size(),
                     0,
                     static_cast<sockaddr*>(any),
                     from_length) == static_cast<ssize_t>(datagram.size()));
  }
  std::string Answer(uint64_t number, rpc::Direction direction = rpc::Direction::kToClient) {
    tide::v1::SchedulerMessage answer;
    answer.set_term(3);
    answer.mutable_ack()->set_heartbeat(number);
    return sealer.Seal(session, direction, number, answer.SerializeAsString());
  }

  // Whether datagrams alone will do.
  bool Send(uint64_t number) {
    tide::v1::Heartbeat beat;
    beat.set_number(number);
    return channel->Send(beat);
  }
};

TEST_CASE("heartbeats leave the stream once one was answered, and go back when answers end") {
  Port port;
  CHECK_FALSE(port.Send(1));
  const auto first = port.Receive();
  REQUIRE(first);
  CHECK(first->number == 1);
  tide::v1::Heartbeat beat;
  REQUIRE(beat.ParseFromString(first->body));
  CHECK(beat.number() == 1);

  port.Say(port.Answer(1));
  REQUIRE(Eventually([&] { return port.answered == 1; }));
  CHECK(port.Send(2));
  CHECK_FALSE(port.Send(3));  // 2 was not answered
  CHECK_FALSE(port.Send(4));
  CHECK_FALSE(port.Send(5));
  for (uint64_t number = 2; number <= 5; ++number) {
    const auto sent = port.Receive();
    REQUIRE(sent);
    CHECK(sent->number == number);  // they are tried all the while
  }
  port.Say(port.Answer(5));
  REQUIRE(Eventually([&] { return port.answered == 5; }));
  CHECK(port.Send(6));
}

TEST_CASE("an answer counts from who has the key, to a heartbeat that was sent") {
  Port port;
  CHECK_FALSE(port.Send(1));
  REQUIRE(port.Receive());
  port.Say("not sealed, and long enough to be a datagram of somebody");
  port.Say(port.Answer(1, rpc::Direction::kToServer));  // as the agent's own, sent back
  port.Say(port.Answer(7));                             // not asked yet
  rpc::DatagramSession other = *rpc::DatagramSession::Make();
  other.id = port.session.id;
  std::swap(other, port.session);
  port.Say(port.Answer(1));
  std::swap(other, port.session);
  CHECK_FALSE(port.Send(2));
  REQUIRE(port.Receive());
  port.Say(port.Answer(2));
  REQUIRE(Eventually([&] { return port.answered == 2; }));
  CHECK(port.Send(3));
}

TEST_CASE("a heartbeat that is too long for a datagram, or was sent before, goes on the stream") {
  Port port;
  CHECK_FALSE(port.Send(1));
  REQUIRE(port.Receive());
  port.Say(port.Answer(1));
  REQUIRE(Eventually([&] { return port.answered == 1; }));
  tide::v1::Heartbeat beat;
  beat.set_number(2);
  while (beat.ByteSizeLong() <= rpc::kDatagramBytesMost) {
    beat.add_progress()->set_step(1'000'000);
  }
  CHECK_FALSE(port.channel->Send(beat));
  CHECK(port.Send(2));
  CHECK_FALSE(port.Send(2));
  const auto sent = port.Receive();
  REQUIRE(sent);
  CHECK(sent->number == 2);
}

TEST_CASE("nobody at the port: the stream goes on") {
  Port port;
  const uint16_t gone = port.port.port;
  port.port.socket.Close();
  for (uint64_t number = 1; number <= 10; ++number) {
    CHECK_FALSE(port.Send(number));
  }
  CHECK(gone != 0);
}

TEST_CASE("what is no port is refused") {
  const Port port;
  const auto open = [](const std::string& peer, const tide::v1::BeatPort& offer) {
    return BeatChannel::Open(peer, offer, [](const auto&) {}).has_value();
  };
  CHECK(open("ipv4:127.0.0.1:7071", port.Offer()));
  CHECK_FALSE(open("unix:/run/tide/s.sock", port.Offer()));
  tide::v1::BeatPort offer = port.Offer();
  offer.set_port(0);
  CHECK_FALSE(open("ipv4:127.0.0.1:7071", offer));
  offer.set_port(70'000);
  CHECK_FALSE(open("ipv4:127.0.0.1:7071", offer));
  offer = port.Offer();
  offer.set_key("short");
  CHECK_FALSE(open("ipv4:127.0.0.1:7071", offer));
}

}  // namespace
}  // namespace tide::agent
