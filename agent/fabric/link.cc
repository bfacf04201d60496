#include "agent/fabric/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "common/base/time.h"

namespace tide::allreduce {
namespace {

static_assert(std::endian::native == std::endian::little, "elements travel as they lie in memory");

// Layout on the wire.
struct Header {
  uint32_t length = 0;
  uint32_t iteration = 0;
  uint32_t chunk = 0;
  uint32_t tree_and_block = 0;  // the tree is the lowest bit
};
static_assert(sizeof(Header) == 16);

Header HeaderOf(const FrameName& name, size_t elements) {
  const size_t length = sizeof(Header) - sizeof(uint32_t) + elements * sizeof(float);
  return {static_cast<uint32_t>(length), name.iteration, name.chunk, name.block << 1U | name.tree};
}

bool MustWait(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

std::string EdgeName(uint32_t from, uint32_t to) {
  return "node " + std::to_string(from) + " → node " + std::to_string(to);
}

std::unexpected<Error> Link::Broken(bool sending, ErrorCode code, const std::string& why) const {
  const std::string name =
      sending ? EdgeName(edge_.self, edge_.peer) : EdgeName(edge_.peer, edge_.self);
  return Fail(code, name + " (tree " + std::to_string(edge_.tree) + "): " + why);
}

// Waits until the socket is ready. Fails when the node halts or the peer is silent.
Status Link::Await(bool sending) const {
  std::array<pollfd, 2> fds = {
      pollfd{socket_.get(), static_cast<short>(sending ? POLLOUT : POLLIN), 0},
      pollfd{halt_.fd(), POLLIN, 0}};
  const int64_t deadline = MonotonicNanos() + timeout_ns_;
  while (true) {
    const int64_t left = deadline - MonotonicNanos();
    if (left <= 0) {
      return Broken(sending,
                    ErrorCode::kDeadlineExceeded,
                    std::string(sending ? "takes" : "sends") + " nothing for " +
                        FormatDuration(Duration::Nanos(timeout_ns_)));
    }
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left / 1'000'000 + 1));
    if (fds[1].revents != 0 && ready > 0) {
      return Broken(sending, ErrorCode::kUnavailable, "given up, as this node failed elsewhere");
    }
    if (ready > 0) {
      return {};
    }
    if (ready < 0 && errno != EINTR) {
      return FailErrno("cannot wait for a socket", errno);
    }
  }
}

// Waits as a slow link would, or until the node halts.
void Link::Delay() const {
  pollfd halted = {halt_.fd(), POLLIN, 0};
  const timespec span = {delay_ns_ / 1'000'000'000, delay_ns_ % 1'000'000'000};
  static_cast<void>(::ppoll(&halted, 1, &span, nullptr));
}

Status Link::Send(const FrameName& name, std::span<const float> block) {
  const int64_t start = MonotonicNanos();
  if (delay_ns_ > 0) {
    Delay();
  }
  Header header = HeaderOf(name, block.size());
  const auto bytes = std::as_bytes(block);
  const size_t total = sizeof(header) + bytes.size();
  for (size_t done = 0; done < total;) {
    std::array<iovec, 2> parts{};
    msghdr message{};
    message.msg_iov = parts.data();
    if (done < sizeof(header)) {
      const auto rest = std::as_writable_bytes(std::span(&header, 1)).subspan(done);
      parts[message.msg_iovlen++] = {rest.data(), rest.size()};
    }
    const auto rest = bytes.subspan(done < sizeof(header) ? 0 : done - sizeof(header));
    // The system takes no const here, though it only reads.
    parts[message.msg_iovlen++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (MustWait(errno)) {
      TIDE_TRY(Await(true));
    } else if (errno != EINTR) {
      return Broken(true, ErrorCode::kUnavailable, FailErrno("broken", errno).error().message);
    }
  }
  sent_.bytes += bytes.size();
  sent_.frames += 1;
  sent_.nanos += MonotonicNanos() - start;
  return {};
}

Status Link::ReceiveBytes(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count == 0) {
      return Broken(false, ErrorCode::kUnavailable, "closed by the peer");
    } else if (MustWait(errno)) {
      TIDE_TRY(Await(false));
    } else if (errno != EINTR) {
      return Broken(false, ErrorCode::kUnavailable, FailErrno("broken", errno).error().message);
    }
  }
  return {};
}

Status Link::Receive(const FrameName& name, std::span<float> block) {
  Header header;
  TIDE_TRY(ReceiveBytes(std::as_writable_bytes(std::span(&header, 1))));
  const Header expected = HeaderOf(name, block.size());
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) {
    return Broken(false,
                  ErrorCode::kCorrupt,
                  "a frame of " + std::to_string(header.length) + " bytes for iteration " +
                      std::to_string(header.iteration) + ", chunk " + std::to_string(header.chunk) +
                      ", tree " + std::to_string(header.tree_and_block & 1U) +
                      ", where iteration " + std::to_string(name.iteration) + ", chunk " +
                      std::to_string(name.chunk) + ", tree " + std::to_string(name.tree) +
                      " was due");
  }
  return ReceiveBytes(std::as_writable_bytes(block));
}

}  // namespace tide::allreduce
