#pragma once
// Reports from a rank to its agent: JSON, one object a line, over a unix stream socket. Nothing
// depends on a report arriving: page, exit code and checkpoint folder decide. So one is sent or
// dropped within 50 ms, and a lost connection is made again at the next.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/file.h"

namespace tide::cpp {

class Reporter {
 public:
  // path: the agent's socket; "" outside the platform: every report is dropped.
  Reporter(std::string path, int64_t rank);

  // fields: further members of the object, such as `,"step":7`.
  // True: it was handed to the socket, and answered where that is awaited.
  bool Send(std::string_view kind, std::string_view fields, bool await_reply = false);

  // Connects, which says who this rank is. Later reports do it by themselves.
  void Hello();
  void Close() { socket_.Close(); }

 private:
  bool Connect(int64_t deadline_ns);
  bool Write(std::string_view line, int64_t deadline_ns);
  bool Await(int64_t deadline_ns);
  void Drain();

  const std::string path_;
  const int64_t rank_;
  Fd socket_;
};

}  // namespace tide::cpp
