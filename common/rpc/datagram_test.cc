#include "common/rpc/datagram.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <set>

namespace tide::rpc {
namespace {

DatagramSession Session() {
  auto session = DatagramSession::Make();
  REQUIRE(session);
  return *session;
}

TEST_CASE("a datagram is opened by who has the key, for its direction, as it was sealed") {
  DatagramSealer sealer;
  const DatagramSession session = Session();
  for (const std::string& body : {std::string(), std::string("step 7"), std::string(1'000, 'x')}) {
    const std::string sealed = sealer.Seal(session, Direction::kToServer, 7, body);
    CHECK(sealed.size() == body.size() + kDatagramOverhead);
    CHECK(SessionOf(sealed) == session.id);
    CHECK((body.empty() || sealed.find(body) == std::string::npos));
    const auto opened = sealer.Open(session, Direction::kToServer, sealed);
    REQUIRE(opened);
    CHECK(opened->number == 7);
    CHECK(opened->body == body);

    CHECK_FALSE(sealer.Open(session, Direction::kToClient, sealed));
    CHECK_FALSE(sealer.Open(Session(), Direction::kToServer, sealed));
    DatagramSession other = Session();
    other.id = session.id;
    CHECK_FALSE(sealer.Open(other, Direction::kToServer, sealed));
  }
}

TEST_CASE("a datagram of which one bit was changed, or the end is missing, is not opened") {
  DatagramSealer sealer;
  const DatagramSession session = Session();
  const std::string sealed = sealer.Seal(session, Direction::kToClient, 1'000'000, "step 7");
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(sealer.Open(session, Direction::kToClient, changed));
  }
  for (size_t length = 0; length < sealed.size(); ++length) {
    CHECK_FALSE(sealer.Open(session, Direction::kToClient, sealed.substr(0, length)));
  }
  CHECK_FALSE(sealer.Open(session, Direction::kToClient, sealed + '\0'));
  CHECK(sealer.Open(session, Direction::kToClient, sealed));  // it still can
}

TEST_CASE("what is no datagram is of no session") {
  CHECK_FALSE(SessionOf(""));
  CHECK_FALSE(SessionOf(std::string(kDatagramOverhead - 1, 'x')));
}

TEST_CASE("sessions are told apart") {
  std::set<uint64_t> ids;
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    const DatagramSession session = Session();
    CHECK(session.key.size() == kDatagramKeyBytes);
    ids.insert(session.id);
    keys.insert(session.key);
  }
  CHECK(ids.size() == 100);
  CHECK(keys.size() == 100);
}

// What has come to the socket, once something has.
std::string Receive(const Fd& socket) {
  pollfd ready{socket.get(), POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  std::array<char, 64> bytes{};
  const ssize_t n = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
  REQUIRE(n >= 0);
  return {bytes.data(), static_cast<size_t>(n)};
}

TEST_CASE("the port is where gRPC's is, and is found by gRPC's name of the peer") {
  for (const std::string_view listen_text :
       {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::]:0", ":0"}) {
    const std::string listen(listen_text);
    CAPTURE(listen);
    const auto port = BindDatagrams(listen);
    if (!port && listen == "[::]:0") {
      WARN("no IPv6 here: " << port.error().message);
      continue;
    }
    REQUIRE(port);
    REQUIRE(port->port != 0);
    if (listen == "localhost:0") {
      continue;  // of which kind it is, the machine says
    }
    const auto socket = ConnectDatagrams("ipv4:127.0.0.1:7070", port->port);
    REQUIRE(socket);
    REQUIRE(::send(socket->get(), "beat", 4, 0) == 4);
    CHECK(Receive(port->socket) == "beat");
  }
}

TEST_CASE("IPv6 as gRPC writes it") {
  const auto port = BindDatagrams("[::1]:0");
  if (!port) {
    WARN("no IPv6 here: " << port.error().message);
    return;
  }
  for (const std::string_view peer_text : {"ipv6:%5B::1%5D:7070", "ipv6:[::1]:7070"}) {
    const std::string peer(peer_text);
    CAPTURE(peer);
    const auto socket = ConnectDatagrams(peer, port->port);
    REQUIRE(socket);
    REQUIRE(::send(socket->get(), peer.data(), peer.size(), 0) > 0);
    CHECK(Receive(port->socket) == peer);
  }
}

TEST_CASE("what is no address is refused by name") {
  for (const std::string_view listen_text :
       {"unix", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70707"}) {
    const std::string listen(listen_text);
    CAPTURE(listen);
    const auto port = BindDatagrams(listen);
    REQUIRE_FALSE(port);
    CHECK(port.error().code == ErrorCode::kInvalidArgument);
    CHECK(port.error().message.find(listen) != std::string::npos);
  }
  for (const std::string_view peer_text : {"unix:/tmp/s.sock", "ipv4:host:1", "ipv4:", ""}) {
    const std::string peer(peer_text);
    CAPTURE(peer);
    CHECK_FALSE(ConnectDatagrams(peer, 7070));
  }
}

}  // namespace
}  // namespace tide::rpc
