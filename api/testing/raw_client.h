#pragma once
// A client that sends and reads bytes, for what no well-behaved one does.

#include <string>
#include <string_view>

#include "common/base/file.h"

namespace tide::api::testing {

class RawClient {
 public:
  //   receive_buffer: bytes that the kernel takes for a client that does not read; 0 = its default.
  explicit RawClient(int port, int receive_buffer = 0);

  // Sends all; what a server that hung up does not take is lost.
  void Send(std::string_view text);
  // All up to and with `end`; what came, where the server hangs up before it.
  [[nodiscard]] std::string ReadUntil(std::string_view end);
  // All until the server hangs up.
  [[nodiscard]] std::string ReadAll();
  // One answer that states its length, or one without a body.
  [[nodiscard]] std::string ReadAnswer();

 private:
  [[nodiscard]] bool ReadMore();

  Fd fd_;
  std::string read_;  // and not given out yet
};

}  // namespace tide::api::testing
