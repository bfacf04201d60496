#include "agent/init/control_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "agent/runtime/task_folder.h"

namespace tide::agent {
namespace {

constexpr size_t kMaxLine = 65536;
// A watcher that does not read for this long a backlog is dropped; it can ask again.
constexpr size_t kMaxBacklog = 1U << 20U;

std::optional<ControlRequest> Parse(const std::string& line) {
  using Op = ControlRequest::Op;
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  try {
    const std::string op = json.at("op").get<std::string>();
    if (op == "status") {
      return ControlRequest{.op = Op::kStatus};
    }
    if (op == "watch") {
      return ControlRequest{.op = Op::kWatch};
    }
    if (op == "kill") {
      return ControlRequest{.op = Op::kKill};
    }
    if (op == "signal") {
      return ControlRequest{.op = Op::kSignal, .value = json.at("signal").get<int64_t>()};
    }
    if (op == "stop") {
      return ControlRequest{.op = Op::kStop, .value = json.at("grace_ms").get<int64_t>()};
    }
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Status ControlServer::Listen() {
  listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, kControlSocket, sizeof(address.sun_path) - 1);
  ::unlink(kControlSocket);
  // The folder is closed to others; the socket is so for the moment before its mode would be set.
  const mode_t before = ::umask(0177);
  const bool bound =
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  ::umask(before);
  if (!bound) {
    return FailErrno("cannot create control.sock", error);
  }
  if (::listen(listener_.get(), 16) != 0) {
    return FailErrno("cannot listen on control.sock", errno);
  }
  return {};
}

void ControlServer::AddTo(std::vector<pollfd>& fds) const {
  fds.push_back({listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) {
    const int events = client.out.empty() ? POLLIN : POLLIN | POLLOUT;
    fds.push_back({client.fd.get(), static_cast<int16_t>(events), 0});
  }
}

void ControlServer::Serve(const Handler& handler) {
  Accept();
  for (Client& client : clients_) {
    Read(client);
    Answer(client, handler);
    Flush(client);
  }
  std::erase_if(clients_, [](const Client& client) { return client.closed; });
}

void ControlServer::Broadcast(const std::string& line) {
  for (Client& client : clients_) {
    if (client.watching) {
      Send(client, line);
    }
  }
}

void ControlServer::Accept() {
  while (true) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      return;
    }
    clients_.push_back(Client{.fd = std::move(fd), .in = "", .out = ""});
  }
}

void ControlServer::Read(Client& client) {
  std::array<char, 4096> part{};
  while (client.in.size() <= kMaxLine) {
    const ssize_t n = ::recv(client.fd.get(), part.data(), part.size(), 0);
    if (n > 0) {
      client.in.append(part.data(), static_cast<size_t>(n));
      continue;
    }
    client.closed = client.closed || n == 0 || (errno != EAGAIN && errno != EINTR);
    return;
  }
  client.closed = true;
}

void ControlServer::Answer(Client& client, const Handler& handler) {
  for (size_t end = client.in.find('\n'); end != std::string::npos; end = client.in.find('\n')) {
    const std::optional<ControlRequest> request = Parse(client.in.substr(0, end));
    client.in.erase(0, end + 1);
    if (!request) {
      client.closed = true;
      return;
    }
    client.watching = client.watching || request->op == ControlRequest::Op::kWatch;
    Send(client, handler(*request));
  }
}

void ControlServer::Send(Client& client, const std::string& line) {
  client.out += line;
  client.out += '\n';
  Flush(client);
  client.closed = client.closed || client.out.size() > kMaxBacklog;
}

void ControlServer::Flush(Client& client) {
  while (!client.out.empty()) {
    const ssize_t n = ::send(client.fd.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (n > 0) {
      client.out.erase(0, static_cast<size_t>(n));
      continue;
    }
    client.closed = client.closed || (errno != EAGAIN && errno != EINTR);
    return;
  }
}

}  // namespace tide::agent
