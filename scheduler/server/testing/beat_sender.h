#pragma once
// An agent's heartbeats as datagrams, by hand. For tests.

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "common/rpc/datagram.h"
#include "tide/v1/agent.pb.h"

namespace tide::testing {

struct BeatSender {
  rpc::DatagramSession session;
  rpc::DatagramSealer sealer;
  Fd socket;

  explicit BeatSender(const tide::v1::BeatPort& offer, const std::string& host = "127.0.0.1")
      : session{offer.session(), offer.key()} {
    auto connected =
        rpc::ConnectDatagrams("ipv4:" + host + ":1", static_cast<uint16_t>(offer.port()));
    REQUIRE(connected);
    socket = *std::move(connected);
  }

  [[nodiscard]] std::string Sealed(const tide::v1::Heartbeat& heartbeat) {
    return sealer.Seal(
        session, rpc::Direction::kToServer, heartbeat.number(), heartbeat.SerializeAsString());
  }
  [[nodiscard]] std::string Sealed(uint64_t number) {
    tide::v1::Heartbeat heartbeat;
    heartbeat.set_number(number);
    return Sealed(heartbeat);
  }
  void Say(const std::string& datagram) const {
    REQUIRE(::send(socket.get(), datagram.data(), datagram.size(), 0) >= 0);
  }
  // The next that comes, as it must be sealed.
  [[nodiscard]] tide::v1::SchedulerMessage Answer() {
    pollfd ready{socket.get(), POLLIN, 0};
    REQUIRE(::poll(&ready, 1, 10'000) == 1);
    std::array<char, 2'000> bytes{};
    const ssize_t n = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    REQUIRE(n > 0);
    const auto opened =
        sealer.Open(session, rpc::Direction::kToClient, {bytes.data(), static_cast<size_t>(n)});
    REQUIRE(opened);
    tide::v1::SchedulerMessage answer;
    REQUIRE(answer.ParseFromString(opened->body));
    CHECK(answer.ack().heartbeat() == opened->number);
    return answer;
  }
};

}  // namespace tide::testing
