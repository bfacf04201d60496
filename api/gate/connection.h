#pragma once
// One connection: what has come, what is to be sent, and how far it is. The gate's thread owns it,
// or one worker while it is busy; `busy` itself is the gate's.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/gate/body_reader.h"
#include "api/gate/head.h"
#include "api/gate/service.h"
#include "api/gate/socket.h"

namespace tide::api {

enum class Phase {
  kHandshake,  // of TLS
  kHead,       // idle, or the head comes
  kBody,       // it was admitted, and comes
  kFlush,      // an answer goes out
  kLinger,     // it was answered and ends; what the client still sends is thrown away, lest the
               // answer is lost to a reset
};

// A request of which the head is there.
struct Incoming {
  Head head;
  size_t head_bytes;
  BodyReader body;
  bool admitted = false;  // the body may be read
};

struct Connection {
  using Time = std::chrono::steady_clock::time_point;

  uint64_t id = 0;
  bool busy = false;  // a worker has it
  Socket socket;
  std::string address;  // of the client
  std::string share;    // what counts as one address: that, or its network with IPv6
  Phase phase = Phase::kHandshake;
  std::string input = {};                   // bytes that nobody has used yet
  size_t searched = 0;                      // of them, that hold no end of a head
  std::unique_ptr<Incoming> incoming = {};  // set once a head is there, until it is answered
  std::string output = {};
  size_t sent = 0;      // of the output
  bool closes = false;  // after the output
  bool broken = false;  // it can be closed only

  Time since = {};     // it has been in this phase
  Time deadline = {};  // when the phase is over
  size_t counted = 0;  // bytes that it was last seen to hold
};

// Does what a worker does with a request: asks whether its body may come, or answers it. Leaves the
// connection in the phase it goes on with.
//   stuck: a stream ends when the client takes nothing for so long.
void Exchange(Connection& connection, Service& service, std::chrono::milliseconds stuck);

// Has `reply` sent as the answer to a request that is not let in, and the connection closed then.
void AnswerAndClose(Connection& connection, const Reply& reply);

}  // namespace tide::api
