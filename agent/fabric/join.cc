#include "agent/fabric/join.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "agent/fabric/gate.h"
#include "agent/fabric/proof.h"
#include "agent/fabric/sockets.h"
#include "common/base/time.h"

namespace tide::allreduce {
namespace {

constexpr int kRetryMillis = 20;

// Waits for a connection that is being made. Returns 0 or why it failed.
int AwaitConnection(const Fd& socket, int halt_fd, int64_t deadline) {
  if (!WaitUntilReady(socket, POLLOUT, halt_fd, deadline)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// Connects, again and again while the other node is not up yet.
Result<Fd> Connect(const std::string& address, Halt& halt, int64_t deadline) {
  while (true) {
    auto socket = StartConnecting(address);
    const int error = socket ? AwaitConnection(*socket, halt.fd(), deadline) : 0;
    if (socket && error == 0) {
      SetNoDelay(*socket);
      return socket;
    }
    pollfd halted = {halt.fd(), POLLIN, 0};
    if (MonotonicNanos() >= deadline || ::poll(&halted, 1, kRetryMillis) > 0) {
      return socket ? FailErrno("cannot connect to " + address, error)
                    : std::unexpected(socket.error());
    }
  }
}

Status Introduce(
    const Fd& socket, const JoinOptions& options, const Edge& edge, int halt_fd, int64_t deadline) {
  Bytes32 challenge{};
  TIDE_TRY(ReadFully(socket, challenge, halt_fd, deadline));
  const Hello hello = {
      options.self, edge.peer, edge.tree, DigestText(options.arguments), MakeNonce()};
  const HelloBytes bytes = SealHello(hello, challenge, options.token);
  TIDE_TRY(WriteFully(socket, bytes, halt_fd, deadline));
  AnswerBytes answer_bytes{};
  const Status heard = ReadFully(socket, answer_bytes, halt_fd, deadline);
  if (!heard) {
    return heard.error().code == ErrorCode::kUnavailable
               ? Fail(ErrorCode::kUnauthenticated, "refused; is the token the same?")
               : heard;
  }
  const auto answer = OpenAnswer(answer_bytes, bytes, options.token);
  if (!answer) {
    return Fail(ErrorCode::kUnauthenticated, "the other side does not know the token");
  }
  switch (*answer) {
    case Answer::kWelcome:
      return {};
    case Answer::kOtherArguments:
      return Fail(ErrorCode::kConflict, "the nodes were started with different arguments");
    case Answer::kNotExpected:
      return Fail(ErrorCode::kConflict, "not expected there; is a node started twice?");
  }
  return Fail(ErrorCode::kCorrupt, "an unknown answer");
}

// The edges of a tree that end in node `self`.
std::vector<Edge> EdgesOf(const CommPlan& plan, uint32_t self, uint32_t tree) {
  std::vector<Edge> edges;
  const auto& parents = plan.parents[tree];
  if (parents[self] != kNoParent) {
    edges.push_back({self, static_cast<uint32_t>(parents[self]), tree, true});
  }
  for (uint32_t node = 0; node < parents.size(); ++node) {
    if (parents[node] == static_cast<int32_t>(self)) {
      edges.push_back({self, node, tree, false});
    }
  }
  return edges;
}

Result<Fd> Climb(const JoinOptions& options, const Edge& edge, Halt& halt, int64_t deadline) {
  auto socket = Connect(options.nodes[edge.peer], halt, deadline);
  const Status met = socket ? Introduce(*socket, options, edge, halt.fd(), deadline)
                            : std::unexpected(socket.error());
  if (!met) {
    return Fail(met.error().code,
                EdgeName(edge.self, edge.peer) + " (tree " + std::to_string(edge.tree) +
                    "): " + met.error().message);
  }
  return socket;
}

}  // namespace

Result<Fd> Listen(const std::string& address) {
  return ListenOn(address);
}

Result<uint16_t> PortOf(const Fd& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(listener.get(), general, &size) != 0) {
    return FailErrno("cannot tell a port", errno);
  }
  // Both families have the port in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Result<std::vector<std::unique_ptr<Link>>> JoinPeers(const JoinOptions& options,
                                                     const CommPlan& plan,
                                                     const Fd& listener,
                                                     Halt& halt) {
  const int64_t deadline = MonotonicNanos() + options.join_timeout_ns;
  std::vector<Edge> edges;
  for (uint32_t tree = 0; tree < 2; ++tree) {
    std::ranges::copy(EdgesOf(plan, options.self, tree), std::back_inserter(edges));
  }
  std::vector<Edge> below;
  std::ranges::copy_if(
      edges, std::back_inserter(below), [](const Edge& edge) { return !edge.to_parent; });
  Gate gate(options, below, listener, halt);
  std::thread waiting([&gate, &halt, deadline] {
    if (const Status run = gate.Run(deadline); !run) {
      halt.Raise(run.error());
    }
  });
  std::vector<Fd> sockets;
  for (const Edge& edge : edges) {
    auto socket = edge.to_parent && !halt.raised() ? Climb(options, edge, halt, deadline) : Fd();
    if (!socket) {
      halt.Raise(socket.error());
    }
    sockets.push_back(socket ? std::move(*socket) : Fd());
  }
  waiting.join();
  if (const auto error = halt.raised()) {
    return std::unexpected(*error);
  }
  std::vector<std::unique_ptr<Link>> links;
  for (size_t i = 0; i < edges.size(); ++i) {
    Fd socket = edges[i].to_parent ? std::move(sockets[i]) : gate.Take(edges[i]);
    links.push_back(std::make_unique<Link>(std::move(socket), edges[i], halt, options.timeout_ns));
  }
  return links;
}

}  // namespace tide::allreduce
