#include "bench/daemons/beat_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "common/base/check.h"

namespace tide::bench {
namespace {

Fd Connect(const std::string& peer, uint32_t port) {
  auto socket = rpc::ConnectDatagrams(peer, static_cast<uint16_t>(port));
  TIDE_CHECK(socket.has_value(), "the scheduler's UDP port can be reached");
  return *std::move(socket);
}

}  // namespace

BeatSocket::BeatSocket(const std::string& peer, uint32_t port)
    : socket_(Connect(peer, port)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Receive(); }) {}

BeatSocket::~BeatSocket() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void BeatSocket::Join(const tide::v1::BeatPort& offer, OnAnswer on_answer) {
  const MutexLock lock(mutex_);
  sessions_[offer.session()] = {{offer.session(), offer.key()}, std::move(on_answer)};
}

void BeatSocket::Leave(uint64_t session) {
  const MutexLock lock(mutex_);
  sessions_.erase(session);
}

void BeatSocket::Send(uint64_t session, const tide::v1::Heartbeat& heartbeat) {
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) {
    return;
  }
  const std::string datagram = sealer_.Seal(it->second.seal,
                                            rpc::Direction::kToServer,
                                            heartbeat.number(),
                                            heartbeat.SerializeAsString());
  (void)!::send(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
}

void BeatSocket::Receive() {
  std::array<pollfd, 2> fds = {{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};
  std::array<char, rpc::kDatagramBytesMost> bytes{};
  while (::poll(fds.data(), fds.size(), -1) < 0 || fds[0].revents == 0) {
    ssize_t count = 0;
    do {
      count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count > 0) {
        Take({bytes.data(), static_cast<size_t>(count)});
      }
    } while (count > 0);
  }
}

void BeatSocket::Take(std::string_view datagram) {
  const MutexLock lock(mutex_);
  const auto id = rpc::SessionOf(datagram);
  const auto it = id ? sessions_.find(*id) : sessions_.end();
  if (it == sessions_.end()) {
    return;
  }
  if (const auto opened = sealer_.Open(it->second.seal, rpc::Direction::kToClient, datagram)) {
    it->second.on_answer(opened->number);
  }
}

}  // namespace tide::bench
