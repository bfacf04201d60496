#include "api/gate/socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tide::api {
namespace {

// Bytes that the library is given at a time: it counts in int.
constexpr size_t kTlsPiece = 64U << 10U;

Socket::Wait WaitOf(int error, Socket::Wait wanted) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR ? wanted : Socket::Wait::kOver;
}

}  // namespace

void Socket::FreeTls::operator()(SSL* tls) const {
  SSL_free(tls);
}

Socket::Socket(Fd fd, SSL* tls) : fd_(std::move(fd)), tls_(tls) {
  if (tls_ != nullptr) {
    SSL_set_fd(tls, fd_.get());
    SSL_set_accept_state(tls);
  }
}
Socket::~Socket() = default;
Socket::Socket(Socket&&) noexcept = default;

auto Socket::WhyNot(int result) const -> Wait {
  const int error = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) {
    return Wait::kReadable;
  }
  return error == SSL_ERROR_WANT_WRITE ? Wait::kWritable : Wait::kOver;
}

auto Socket::Handshake() -> Wait {
  if (tls_ == nullptr) {
    return Wait::kNothing;
  }
  const int result = SSL_do_handshake(tls_.get());
  return result == 1 ? Wait::kNothing : WhyNot(result);
}

auto Socket::Read(std::span<char> into) -> Moved {
  if (tls_ != nullptr) {
    const int got =
        SSL_read(tls_.get(), into.data(), static_cast<int>(std::min(into.size(), kTlsPiece)));
    return got > 0 ? Moved{static_cast<size_t>(got)} : Moved{0, WhyNot(got)};
  }
  const ssize_t got = ::recv(fd_.get(), into.data(), into.size(), 0);
  if (got > 0) {
    return {static_cast<size_t>(got)};
  }
  return {0, got == 0 ? Wait::kOver : WaitOf(errno, Wait::kReadable)};
}

auto Socket::Write(std::string_view data) -> Moved {
  if (tls_ != nullptr) {
    const int put =
        SSL_write(tls_.get(), data.data(), static_cast<int>(std::min(data.size(), kTlsPiece)));
    return put > 0 ? Moved{static_cast<size_t>(put)} : Moved{0, WhyNot(put)};
  }
  const ssize_t put = ::send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
  return put >= 0 ? Moved{static_cast<size_t>(put)} : Moved{0, WaitOf(errno, Wait::kWritable)};
}

bool Socket::WriteAll(std::string_view data, std::chrono::milliseconds stuck) {
  while (!data.empty()) {
    const Moved moved = Write(data);
    data.remove_prefix(moved.bytes);
    if (moved.wait == Wait::kOver) {
      return false;
    }
    if (moved.wait != Wait::kNothing) {
      const auto events = static_cast<short>(moved.wait == Wait::kReadable ? POLLIN : POLLOUT);
      pollfd ready = {fd_.get(), events, 0};
      if (::poll(&ready, 1, static_cast<int>(stuck.count())) == 0) {
        return false;
      }
    }
  }
  return true;
}

bool Socket::PeerLeft() const {
  pollfd left = {fd_.get(), POLLRDHUP, 0};
  return ::poll(&left, 1, 0) > 0;
}

void Socket::EndWriting() {
  if (tls_ != nullptr) {
    SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  ::shutdown(fd_.get(), SHUT_WR);
}

}  // namespace tide::api
