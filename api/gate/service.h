#pragma once
// The server behind the gate, as the gate sees it.

#include <cstddef>
#include <expected>
#include <string>

#include "api/gate/head.h"
#include "api/gate/reply.h"

namespace tide::api {

// A whole request.
struct Request {
  Head head;
  std::string body;
  std::string address;  // where it came from: "10.0.0.7"
};

class Service {
 public:
  virtual ~Service() = default;
  // Returns how long the body of such a request may be, before it is read; or an answer without it.
  // Called by workers.
  [[nodiscard]] virtual std::expected<size_t, Reply> Admit(const Head& head,
                                                           const std::string& address) = 0;
  // Called by workers; may wait.
  [[nodiscard]] virtual Reply Answer(Request request) = 0;
  // Returns whether a proxy sits there, whose connections are those of many. Called by the gate's
  // own thread: must not wait.
  [[nodiscard]] virtual bool StandsForMany(const std::string& address) const = 0;
  // Puts into words why a request is not let in. Called by the gate's own thread: must not wait.
  [[nodiscard]] virtual Reply Refuse(const Refusal& refusal) = 0;
};

}  // namespace tide::api
