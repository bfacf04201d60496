#include "scheduler/store/testing/postgres_proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::testing {
namespace {

constexpr int kPollMs = 2;
constexpr int64_t kLateNanos = 500'000'000;

sockaddr_un SocketIn(const std::filesystem::path& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / ".s.PGSQL.5432";
  TIDE_CHECK(path.size() < sizeof(address.sun_path), "a socket's path is short");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

size_t LengthAt(std::string_view bytes, size_t offset) {
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + offset, sizeof(length));
  return ntohl(length);
}

}  // namespace

struct PostgresProxy::Link {
  Fd client;
  Fd server;
  bool started = false;           // the startup packet, which has no type, has passed
  std::string incoming;           // of the client, not yet a whole message
  std::set<std::string> commits;  // names of the prepared statement
  enum class Phase {
    kForward,
    kLastFlight,  // COMMIT is passing; the server's answer to it is not for the client
    kLate,        // COMMIT is kept back
    kOver,
  } phase = Phase::kForward;
  std::string late;
  int64_t late_until_ns = 0;
};

PostgresProxy::PostgresProxy(const std::filesystem::path& server) : server_(server) {
  std::string pattern = std::filesystem::temp_directory_path() / "tide-px-XXXXXX";
  TIDE_CHECK(::mkdtemp(pattern.data()) != nullptr, "a test has a temporary folder");
  folder_ = pattern;
  listen_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = SocketIn(folder_);
  TIDE_CHECK(::bind(listen_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                 ::listen(listen_, 16) == 0,
             "a proxy listens");
  thread_ = std::thread([this] { Run(); });
}

PostgresProxy::~PostgresProxy() {
  stop_ = true;
  thread_.join();
  ::close(listen_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string PostgresProxy::Address(const std::string& database) const {
  return "postgresql:host=" + folder_.string() + " user=tide dbname=" + database;
}

void PostgresProxy::Run() {
  while (!stop_) {
    std::vector<pollfd> polled = {{listen_, POLLIN, 0}};
    for (const auto& link : links_) {
      polled.push_back({link->client.get(), POLLIN, 0});
      polled.push_back({link->server.get(), POLLIN, 0});
    }
    if (hanging_) {
      polled.resize(1);
    }
    ::poll(polled.data(), polled.size(), kPollMs);
    if ((polled[0].revents & POLLIN) != 0) {
      Accept();
    }
    if (hanging_) {
      continue;
    }
    for (const auto& link : links_) {
      Serve(*link);
    }
    std::erase_if(links_, [](const auto& link) { return link->phase == Link::Phase::kOver; });
  }
}

void PostgresProxy::Accept() {
  auto link = std::make_unique<Link>();
  link->client = Fd(::accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  link->server = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = SocketIn(server_);
  const bool reached =
      ::connect(link->server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
      0;
  if (link->client.valid() && reached) {
    links_.push_back(std::move(link));
  }
}

void PostgresProxy::Serve(Link& link) {
  if (link.phase == Link::Phase::kLate) {
    if (MonotonicNanos() >= link.late_until_ns) {
      Forward(link.server.get(), link.late);
      link.late.clear();
      link.phase = Link::Phase::kLastFlight;
    }
    return;
  }
  FromClient(link);
  FromServer(link);
}

void PostgresProxy::Forward(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      pollfd writable{fd, POLLOUT, 0};
      if (errno != EAGAIN || ::poll(&writable, 1, 10'000) <= 0) {
        return;
      }
      continue;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
    if (bytes_left_ > 0) {
      bytes_left_ = std::max<int64_t>(0, bytes_left_ - sent);
    }
  }
}

void PostgresProxy::DropClient(Link& link) {
  link.client.Close();
  ++cuts_;
}

void PostgresProxy::FromClient(Link& link) {
  if (!link.client.valid()) {
    return;
  }
  if (bytes_left_ == 0) {
    DropClient(link);
    link.phase = Link::Phase::kOver;
    return;
  }
  std::array<char, 65536> buffer{};
  const size_t most = bytes_left_ < 0
                          ? buffer.size()
                          : std::min(buffer.size(), static_cast<size_t>(bytes_left_.load()));
  const ssize_t n = ::recv(link.client.get(), buffer.data(), most, MSG_DONTWAIT);
  if (n == 0) {
    link.phase = Link::Phase::kOver;
    return;
  }
  if (n < 0) {
    return;
  }
  link.incoming.append(buffer.data(), static_cast<size_t>(n));
  while (link.phase == Link::Phase::kForward || link.phase == Link::Phase::kLastFlight) {
    const size_t header = link.started ? 5 : 4;
    if (link.incoming.size() < header) {
      return;
    }
    const size_t length = LengthAt(link.incoming, header - 4) + header - 4;
    if (link.incoming.size() < length) {
      return;
    }
    const std::string message = link.incoming.substr(0, length);
    if (!OnMessage(link, message)) {
      return;
    }
    link.incoming.erase(0, length);
  }
}

// False: the message is not forwarded now.
bool PostgresProxy::OnMessage(Link& link, std::string_view message) {
  if (!link.started) {
    link.started = true;
    Forward(link.server.get(), message);
    return true;
  }
  // Parse: name, text. Bind: portal, name.
  if (message[0] == 'P' || message[0] == 'B') {
    const std::string first(message.data() + 5);
    const std::string second(message.data() + 5 + first.size() + 1);
    if (message[0] == 'P' && second == "COMMIT") {
      link.commits.insert(first);
    }
    if (message[0] == 'B' && link.commits.contains(second)) {
      const Cut cut = cut_.exchange(Cut::kNone);
      if (cut == Cut::kBeforeCommit) {
        DropClient(link);
        link.phase = Link::Phase::kOver;
        return false;
      }
      if (cut == Cut::kLateCommit) {
        link.late = link.incoming;  // all of it was sent in one go
        link.late_until_ns = MonotonicNanos() + kLateNanos;
        link.phase = Link::Phase::kLate;
        DropClient(link);
        return false;
      }
      if (cut == Cut::kAfterCommit) {
        link.phase = Link::Phase::kLastFlight;
      }
    }
  }
  Forward(link.server.get(), message);
  return true;
}

void PostgresProxy::FromServer(Link& link) {
  if (link.phase == Link::Phase::kOver) {
    return;
  }
  std::array<char, 65536> buffer{};
  const size_t most = bytes_left_ <= 0
                          ? buffer.size()
                          : std::min(buffer.size(), static_cast<size_t>(bytes_left_.load()));
  const ssize_t n = ::recv(link.server.get(), buffer.data(), most, MSG_DONTWAIT);
  if (n < 0) {
    return;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
  if (link.phase == Link::Phase::kLastFlight) {
    // "COMMIT" is the tag of its answer.
    if (n == 0 || bytes.find("COMMIT") != std::string_view::npos) {
      if (link.client.valid()) {
        DropClient(link);
      }
      link.phase = Link::Phase::kOver;
    }
    return;
  }
  if (n == 0) {
    link.phase = Link::Phase::kOver;
    return;
  }
  Forward(link.client.get(), bytes);
}

}  // namespace tide::testing
