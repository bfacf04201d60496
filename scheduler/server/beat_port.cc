#include "scheduler/server/beat_port.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log/log.h"

namespace tide {
namespace {

// Beats are collected for so long before the next look: one call then takes dozens of them. A beat
// is not urgent, and what the system holds meanwhile is far more than comes (net.core.rmem_max).
constexpr int kCollectMs = 5;
constexpr size_t kBatch = 64;
// Batches at a look: whoever floods the port must not keep it from its end.
constexpr int kBatchesMost = 256;

}  // namespace

// The datagrams of one look, each with where it came from and, on a socket for all addresses of the
// machine, where it went to: the answer must come from there.
class BeatPort::Batch {
 public:
  Batch() {
    for (size_t i = 0; i < kBatch; ++i) {
      space_[i] = {bytes_[i].data(), bytes_[i].size()};
    }
  }

  // How many have come; 0 when none is left.
  size_t Receive(const Fd& socket) {
    for (size_t i = 0; i < kBatch; ++i) {
      received_[i] = {};
      msghdr& header = received_[i].msg_hdr;
      header.msg_name = &from_[i];
      header.msg_namelen = sizeof from_[i];
      header.msg_iov = &space_[i];
      header.msg_iovlen = 1;
      header.msg_control = to_[i].bytes.data();
      header.msg_controllen = to_[i].bytes.size();
    }
    const int count = ::recvmmsg(socket.get(), received_.data(), kBatch, MSG_DONTWAIT, nullptr);
    answers_ = 0;
    return count > 0 ? static_cast<size_t>(count) : 0;
  }

  // Empty for one that did not fit: nobody here sends such.
  [[nodiscard]] std::string_view datagram(size_t i) const {
    const mmsghdr& one = received_[i];
    return (one.msg_hdr.msg_flags & MSG_TRUNC) != 0
               ? std::string_view()
               : std::string_view(bytes_[i].data(), one.msg_len);
  }

  void Answer(size_t i, std::string datagram) {
    texts_[answers_] = std::move(datagram);
    parts_[answers_] = {texts_[answers_].data(), texts_[answers_].size()};
    mmsghdr& answer = answer_[answers_];
    answer = received_[i];
    answer.msg_hdr.msg_iov = &parts_[answers_];
    answer.msg_hdr.msg_flags = 0;
    FreeRoute(answer.msg_hdr);
    ++answers_;
  }

  // One that cannot be sent is left out: its agent will ask again in a second.
  void Send(const Fd& socket) {
    for (size_t sent = 0; sent < answers_;) {
      const int count = ::sendmmsg(
          socket.get(), &answer_[sent], static_cast<unsigned>(answers_ - sent), MSG_DONTWAIT);
      sent += count > 0 ? static_cast<size_t>(count) : 1;
    }
  }

 private:
  // Keeps the address that was asked, and leaves the way to the system's routes.
  static void FreeRoute(msghdr& header) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
      if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
        in_pktinfo info{};
        std::memcpy(&info, CMSG_DATA(part), sizeof info);
        info.ipi_ifindex = 0;
        std::memcpy(CMSG_DATA(part), &info, sizeof info);
      } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
        in6_pktinfo info{};
        std::memcpy(&info, CMSG_DATA(part), sizeof info);
        if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) {
          info.ipi6_ifindex = 0;
        }
        std::memcpy(CMSG_DATA(part), &info, sizeof info);
      }
    }
  }

  struct alignas(cmsghdr) Control {
    std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> bytes{};
  };

  std::array<std::array<char, rpc::kDatagramBytesMost>, kBatch> bytes_{};
  std::array<iovec, kBatch> space_{};
  std::array<sockaddr_storage, kBatch> from_{};
  std::array<Control, kBatch> to_{};
  std::array<mmsghdr, kBatch> received_{};
  std::array<std::string, kBatch> texts_;
  std::array<iovec, kBatch> parts_{};
  std::array<mmsghdr, kBatch> answer_{};
  size_t answers_ = 0;
};

Result<std::unique_ptr<BeatPort>> BeatPort::Open(const std::string& listen) {
  TIDE_ASSIGN(rpc::DatagramPort port, rpc::BindDatagrams(listen));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    return FailErrno("cannot make an eventfd", errno);
  }
  return std::unique_ptr<BeatPort>(new BeatPort(std::move(port), std::move(stop)));
}

BeatPort::BeatPort(rpc::DatagramPort port, Fd stop)
    : port_(std::move(port)), stop_(std::move(stop)) {}

BeatPort::~BeatPort() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void BeatPort::Start(OnBeat on_beat) {
  on_beat_ = std::move(on_beat);
  thread_ = std::thread([this] { Run(); });
}

Result<tide::v1::BeatPort> BeatPort::Admit(NodeId node) {
  TIDE_ASSIGN(rpc::DatagramSession seal, rpc::DatagramSession::Make());
  tide::v1::BeatPort port;
  port.set_port(port_.port);
  port.set_session(seal.id);
  port.set_key(seal.key);
  const MutexLock lock(mutex_);
  sessions_[port.session()] = {std::move(seal), node, 0};
  return port;
}

void BeatPort::Dismiss(uint64_t session) {
  const MutexLock lock(mutex_);
  sessions_.erase(session);
}

void BeatPort::Run() {
  const auto batch = std::make_unique<Batch>();
  std::array<pollfd, 2> fds = {{{stop_.get(), POLLIN, 0}, {port_.socket.get(), POLLIN, 0}}};
  while (true) {
    (void)::poll(fds.data(), fds.size(), -1);
    size_t count = kBatch;
    for (int round = 0; round < kBatchesMost && count == kBatch; ++round) {
      count = batch->Receive(port_.socket);
      for (size_t i = 0; i < count; ++i) {
        if (std::string answer = Take(batch->datagram(i)); !answer.empty()) {
          batch->Answer(i, std::move(answer));
        }
      }
      batch->Send(port_.socket);
    }
    if (::poll(fds.data(), 1, kCollectMs) > 0) {
      return;
    }
  }
}

std::string BeatPort::Take(std::string_view datagram) {
  const auto id = rpc::SessionOf(datagram);
  if (!id) {
    return {};
  }
  tide::v1::Heartbeat heartbeat;
  rpc::DatagramSession seal;
  uint64_t number = 0;
  NodeId node;
  {
    const MutexLock lock(mutex_);
    const auto session = sessions_.find(*id);
    if (session == sessions_.end()) {
      return {};
    }
    const auto opened = sealer_.Open(session->second.seal, rpc::Direction::kToServer, datagram);
    if (!opened || opened->number <= session->second.newest) {
      return {};
    }
    if (!heartbeat.ParseFromString(opened->body)) {
      log::Warning("Heartbeat not understood", {{"NodeId", session->second.node.value()}});
      return {};
    }
    number = session->second.newest = opened->number;
    node = session->second.node;
    seal = session->second.seal;
  }
  const tide::v1::SchedulerMessage answer = on_beat_(node, heartbeat);
  if (answer.body_case() == tide::v1::SchedulerMessage::BODY_NOT_SET) {
    return {};
  }
  return sealer_.Seal(seal, rpc::Direction::kToClient, number, answer.SerializeAsString());
}

}  // namespace tide
