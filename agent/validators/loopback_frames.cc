#include "agent/validators/loopback_frames.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/time.h"

namespace tide::validators {
namespace {

constexpr uint16_t kEtherType = 0x88B5;  // IEEE 802: local experiments
constexpr size_t kHeaderBytes = 14;
constexpr size_t kTagBytes = 12;        // run and number
constexpr size_t kLeastPayload = 46;    // of Ethernet
constexpr size_t kMostPayload = 9000;   // jumbo frames
constexpr int kReceiveBytes = 8 << 20;  // more than a window
constexpr int64_t kSendPatienceNs = 2'000'000'000;
constexpr int kPollMs = 20;
constexpr size_t kMostStale = 100'000;
constexpr size_t kPlantedByte = kHeaderBytes + kTagBytes + 20;
constexpr unsigned char kPlantedBit = 0x10;

// The next of a sequence without visible pattern (Steele, Lea and Flood, SplitMix, 2014).
uint64_t NextWord(uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  uint64_t word = state;
  word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27U)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31U);
}

void Fill(std::vector<unsigned char>& frame,
          const Port& from,
          const Port& to,
          uint64_t run,
          uint32_t number) {
  const size_t payload = std::min({from.mtu, to.mtu, kMostPayload});
  frame.resize(kHeaderBytes + std::max(payload, kLeastPayload));
  std::ranges::copy(to.address, frame.begin());
  std::ranges::copy(from.address, frame.begin() + 6);
  const uint16_t type = htons(kEtherType);
  std::memcpy(&frame[12], &type, sizeof type);
  std::memcpy(&frame[kHeaderBytes], &run, sizeof run);
  std::memcpy(&frame[kHeaderBytes + sizeof run], &number, sizeof number);
  uint64_t state = run ^ (uint64_t{number} << 32U);
  for (size_t at = kHeaderBytes + kTagBytes; at < frame.size(); at += sizeof state) {
    const uint64_t word = NextWord(state);
    std::memcpy(&frame[at], &word, std::min(sizeof word, frame.size() - at));
  }
}

Result<ifreq> Ask(const Fd& socket, const std::string& name, unsigned long what) {
  ifreq request = {};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(socket.get(), what, &request) != 0) {
    const int error = errno;
    return error == ENODEV ? Fail(ErrorCode::kNotFound, "there is no port " + name)
                           : FailErrno("cannot ask about port " + name, error);
  }
  return request;
}

bool PollFor(const Fd& socket, short events) {
  pollfd waiting{.fd = socket.get(), .events = events, .revents = 0};
  return ::poll(&waiting, 1, kPollMs) == 1;
}

// Throws away what came before: copies of frames for other ports, late ones.
void Drain(const Fd& socket) {
  unsigned char byte = 0;
  for (size_t i = 0; i < kMostStale && ::recv(socket.get(), &byte, 1, MSG_TRUNC) >= 0; ++i) {
  }
}

}  // namespace

Result<Port> OpenPort(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return Fail(ErrorCode::kInvalidArgument, "\"" + name + "\" is no name of a port");
  }
  Port port;
  port.name = name;
  port.socket = Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(kEtherType)));
  if (!port.socket.valid()) {
    const int error = errno;
    return error == EPERM || error == EACCES
               ? Fail(ErrorCode::kPermissionDenied, "frames need CAP_NET_RAW")
               : FailErrno("cannot open a socket for frames", error);
  }
  TIDE_ASSIGN(const ifreq index, Ask(port.socket, name, SIOCGIFINDEX));
  TIDE_ASSIGN(const ifreq address, Ask(port.socket, name, SIOCGIFHWADDR));
  TIDE_ASSIGN(const ifreq mtu, Ask(port.socket, name, SIOCGIFMTU));
  TIDE_ASSIGN(const ifreq flags, Ask(port.socket, name, SIOCGIFFLAGS));
  if (address.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return Fail(ErrorCode::kInvalidArgument, "port " + name + " is no Ethernet port");
  }
  port.index = index.ifr_ifindex;
  std::memcpy(port.address.data(), address.ifr_hwaddr.sa_data, port.address.size());
  port.mtu = static_cast<size_t>(mtu.ifr_mtu);
  port.has_carrier = (flags.ifr_flags & IFF_UP) != 0 && (flags.ifr_flags & IFF_RUNNING) != 0;
  sockaddr_ll place = {};
  place.sll_family = AF_PACKET;
  place.sll_protocol = htons(kEtherType);
  place.sll_ifindex = port.index;
  if (::bind(port.socket.get(), static_cast<sockaddr*>(static_cast<void*>(&place)), sizeof place) !=
      0) {
    return FailErrno("cannot bind to port " + name, errno);
  }
  // Where the larger size is not allowed, the usual one holds a window of small frames.
  static_cast<void>(::setsockopt(
      port.socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes));
  return port;
}

Status FrameSender::Send(
    const Port& from, const Port& to, size_t count, int64_t patience_ns, Passage& passage) {
  window_.resize(count);
  here_.assign(count, false);
  for (size_t i = 0; i < count; ++i) {
    Fill(window_[i], from, to, run_, next_ + static_cast<uint32_t>(i));
  }
  Drain(to.socket);
  const int64_t start = MonotonicNanos();
  TIDE_TRY(SendAll(from));
  passage.sent += count;
  Receive(to, patience_ns, passage);
  passage.nanos += MonotonicNanos() - start;
  next_ += static_cast<uint32_t>(count);
  return {};
}

Status FrameSender::SendAll(const Port& from) {
  if (plant_ == FramePlant::kMute) {
    return {};
  }
  const int64_t deadline = MonotonicNanos() + kSendPatienceNs;
  for (Frame& frame : window_) {
    const bool flips = std::exchange(plant_, FramePlant::kNone) == FramePlant::kFlip;
    frame.at(kPlantedByte) ^= flips ? kPlantedBit : 0;
    while (::send(from.socket.get(), frame.data(), frame.size(), 0) < 0) {
      const int error = errno;
      // Full queues: of the socket, which tells when there is room, or of the port, which does not.
      const bool full = error == EAGAIN || error == ENOBUFS || error == EINTR;
      if (!full || MonotonicNanos() > deadline) {
        return FailErrno("port " + from.name + " takes no frames", error);
      }
      static_cast<void>(PollFor(from.socket, error == EAGAIN ? POLLOUT : short{0}));
    }
    frame.at(kPlantedByte) ^= flips ? kPlantedBit : 0;  // what is expected stays right
  }
  return {};
}

void FrameSender::Receive(const Port& to, int64_t patience_ns, Passage& passage) {
  std::array<unsigned char, kHeaderBytes + kMostPayload + sizeof(uint64_t)> bytes;
  int64_t deadline = MonotonicNanos() + patience_ns;
  const uint64_t all = passage.arrived + window_.size();
  while (passage.arrived < all && MonotonicNanos() < deadline) {
    const ssize_t size = ::recv(to.socket.get(), bytes.data(), bytes.size(), MSG_TRUNC);
    if (size < 0) {
      static_cast<void>(PollFor(to.socket, POLLIN));
      continue;
    }
    const uint64_t before = passage.arrived;
    Take(bytes.data(), static_cast<size_t>(size), passage);
    if (passage.arrived > before) {  // strangers' frames, and late ones, lengthen nothing
      deadline = MonotonicNanos() + patience_ns;
    }
  }
}

void FrameSender::Take(const unsigned char* bytes, size_t size, Passage& passage) {
  uint64_t run = 0;
  uint32_t number = 0;
  if (size < kHeaderBytes + kTagBytes) {
    return;
  }
  std::memcpy(&run, bytes + kHeaderBytes, sizeof run);
  std::memcpy(&number, bytes + kHeaderBytes + sizeof run, sizeof number);
  const size_t place = number - next_;
  if (run != run_ || place >= window_.size() || here_[place]) {
    return;
  }
  here_[place] = true;
  const Frame& expected = window_[place];
  ++passage.arrived;
  passage.bytes += size;
  const size_t common = std::min(size, expected.size());
  const auto differs = std::mismatch(bytes, bytes + common, expected.begin()).first - bytes;
  if (size != expected.size() || static_cast<size_t>(differs) != common) {
    if (passage.changed++ == 0) {
      passage.first_change =
          "frame " + std::to_string(number) + ", byte " + std::to_string(differs);
    }
  }
}

}  // namespace tide::validators
