#include "agent/server/beat_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/log/log.h"

namespace tide::agent {
namespace {

// The one under way. Where the one before was not answered, the stream carries it as well: a node
// that was not heard for three beats gets no new tasks.
constexpr uint64_t kUnansweredMost = 1;
// Before that many it is too early to say in the log that there are no answers.
constexpr uint64_t kPatience = 4;

}  // namespace

Result<std::unique_ptr<BeatChannel>> BeatChannel::Open(const std::string& peer,
                                                       const tide::v1::BeatPort& port,
                                                       OnAnswer on_answer) {
  if (port.port() == 0 || port.port() > UINT16_MAX || port.key().size() != rpc::kDatagramKeyBytes) {
    return Fail(ErrorCode::kInvalidArgument, "the scheduler's port for heartbeats is none");
  }
  TIDE_ASSIGN(Fd socket, rpc::ConnectDatagrams(peer, static_cast<uint16_t>(port.port())));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    return FailErrno("cannot make an eventfd", errno);
  }
  return std::unique_ptr<BeatChannel>(
      new BeatChannel(peer + ", UDP port " + std::to_string(port.port()),
                      std::move(socket),
                      std::move(stop),
                      {port.session(), port.key()},
                      std::move(on_answer)));
}

BeatChannel::BeatChannel(
    std::string where, Fd socket, Fd stop, rpc::DatagramSession session, OnAnswer on_answer)
    : where_(std::move(where)),
      socket_(std::move(socket)),
      stop_(std::move(stop)),
      session_(std::move(session)),
      on_answer_(std::move(on_answer)),
      thread_([this] { Receive(); }) {}

BeatChannel::~BeatChannel() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

bool BeatChannel::Send(const tide::v1::Heartbeat& heartbeat) {
  const MutexLock lock(mutex_);
  const std::string body = heartbeat.SerializeAsString();
  // A number seals once.
  if (heartbeat.number() <= sent_ ||
      body.size() > rpc::kDatagramBytesMost - rpc::kDatagramOverhead) {
    return false;
  }
  sent_ = heartbeat.number();
  const std::string datagram = sealer_.Seal(session_, rpc::Direction::kToServer, sent_, body);
  // What cannot be sent is not answered either.
  (void)!::send(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  const bool answered = answered_ != 0 && sent_ - answered_ <= kUnansweredMost;
  const bool silent = !answered && sent_ >= answered_ + kPatience;
  if (silent && !silent_) {
    log::Info("No answer to heartbeats over UDP, they go on the stream", {{"To", where_}});
  }
  silent_ = silent;
  return answered;
}

void BeatChannel::Receive() {
  std::array<pollfd, 2> fds = {{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};
  std::array<char, rpc::kDatagramBytesMost> bytes{};
  while (::poll(fds.data(), fds.size(), -1) < 0 || fds[0].revents == 0) {
    // Also takes the error that a closed port has left; a poll would tell of it for ever.
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      Take({bytes.data(), static_cast<size_t>(count)});
    }
  }
}

void BeatChannel::Take(std::string_view datagram) {
  const auto opened = opener_.Open(session_, rpc::Direction::kToClient, datagram);
  tide::v1::SchedulerMessage answer;
  if (!opened || !answer.ParseFromString(opened->body) || !answer.has_ack()) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (opened->number > sent_) {
      return;
    }
    answered_ = std::max(answered_, opened->number);
  }
  on_answer_(std::move(answer));
}

}  // namespace tide::agent
