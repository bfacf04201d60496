#pragma once
// A connection's bytes, in clear or through TLS, never waiting. Belongs to one thread at a time.

#include <openssl/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/file.h"

namespace tide::api {

class Socket {
 public:
  // Event that must come before more bytes move.
  enum class Wait {
    kNothing,
    kReadable,
    kWritable,
    kOver,  // it never will: closed by the peer, or broken
  };
  struct Moved {
    size_t bytes = 0;
    Wait wait = Wait::kNothing;  // set where no byte moved
  };

  //   fd: does not block.  tls: of a server, made for this connection; null = in clear.
  Socket(Fd fd, SSL* tls);
  ~Socket();
  Socket(Socket&&) noexcept;
  Socket& operator=(Socket&&) = delete;

  // Goes on with the handshake; kNothing once it is done, at once in clear.
  [[nodiscard]] Wait Handshake();
  [[nodiscard]] Moved Read(std::span<char> into);
  [[nodiscard]] Moved Write(std::string_view data);
  // Writes all, waiting. False once the peer is gone, or takes nothing for so long.
  [[nodiscard]] bool WriteAll(std::string_view data, std::chrono::milliseconds stuck);
  // Whether the peer has hung up, or sends no more.
  [[nodiscard]] bool PeerLeft() const;
  // Says that nothing follows; what the peer still sends can be read.
  void EndWriting();
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  struct FreeTls {
    void operator()(SSL* tls) const;
  };
  [[nodiscard]] Wait WhyNot(int result) const;

  Fd fd_;
  std::unique_ptr<SSL, FreeTls> tls_;
};

}  // namespace tide::api
