#pragma once
// Sealed datagrams: what two programs say beside their gRPC stream, over UDP, under a key that the
// stream has brought (docs/adr/0007). Nobody else can read one, make one, or change one unnoticed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/file.h"
#include "common/base/result.h"

namespace tide::rpc {

struct DatagramSession {
  uint64_t id = 0;  // at random; finds the key
  std::string key;  // of kDatagramKeyBytes

  // Errors: kSystem when there are no random numbers.
  static Result<DatagramSession> Make();
};

// Both ends use one key, so what one says must not be taken for what the other does.
enum class Direction : uint8_t {
  kToServer = 0,
  kToClient = 1
};

inline constexpr size_t kDatagramKeyBytes = 32;
// Fits into one packet of IPv6's least MTU, so it is never sent in parts.
inline constexpr size_t kDatagramBytesMost = 1'200;
inline constexpr size_t kDatagramOverhead = 8 + 8 + 16;  // session, number, tag

// The session that a datagram says it is of; nothing is proven by that.
[[nodiscard]] std::optional<uint64_t> SessionOf(std::string_view datagram);

// AES-256-GCM: session and number in the clear, the body sealed, all of it authentic. For one
// thread at a time.
class DatagramSealer {
 public:
  struct Opened {
    uint64_t number = 0;
    std::string body;
  };

  DatagramSealer();
  ~DatagramSealer();
  DatagramSealer(const DatagramSealer&) = delete;
  DatagramSealer& operator=(const DatagramSealer&) = delete;

  //   number: used once in a direction of a session, or the seal is worth nothing.
  [[nodiscard]] std::string Seal(const DatagramSession& session,
                                 Direction direction,
                                 uint64_t number,
                                 std::string_view body);
  // Nothing when it was not sealed with this session's key for this direction. Says nothing about
  // whether it has come before.
  [[nodiscard]] std::optional<Opened> Open(const DatagramSession& session,
                                           Direction direction,
                                           std::string_view datagram);

 private:
  struct Cipher;
  std::unique_ptr<Cipher> cipher_;
};

struct DatagramPort {
  Fd socket;  // does not block
  uint16_t port = 0;
};

// Listens where gRPC listens on `listen`, "host:port"; port 0 = any. On all addresses of a machine
// it says by control message which one a datagram came to. Of a name with several, the first.
// Errors: kInvalidArgument for what is no host and port, kSystem.
[[nodiscard]] Result<DatagramPort> BindDatagrams(const std::string& listen);

// A socket to the host of a gRPC peer ("ipv4:10.0.0.1:7070") at `port`; does not block.
// Errors: kInvalidArgument for a peer that is no IP address, kSystem.
[[nodiscard]] Result<Fd> ConnectDatagrams(const std::string& peer, uint16_t port);

}  // namespace tide::rpc
