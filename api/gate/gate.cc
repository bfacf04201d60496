#include "api/gate/gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "api/gate/listener.h"
#include "common/base/check.h"
#include "common/log/log.h"

namespace tide::api {
namespace {

using std::chrono::milliseconds;

// Numbers of events that are no connection's.
constexpr uint64_t kListenerId = 0;
constexpr uint64_t kWakeId = 1;
// Connections taken in one turn, so that those that are open get theirs.
constexpr int kAcceptedAtOnce = 64;
// Pieces thrown away in one turn.
constexpr int kDiscardedAtOnce = 16;
constexpr size_t kPiece = 16U << 10U;
// After a file descriptor was asked for in vain.
constexpr milliseconds kAcceptPause{100};
// Time that answers have to go out once the server stops.
constexpr milliseconds kStopTime{1000};
// Files beside connections: gRPC, logs, the audit.
constexpr size_t kOtherFiles = 256;
// A client whose machine is gone acknowledges nothing.
constexpr unsigned kUnacknowledgedMs = 60'000;

GateLimits WithinFileLimit(GateLimits limits) {
  const size_t files = RaiseFileLimit();
  const size_t most = files > 2 * kOtherFiles ? files - kOtherFiles : files / 2;
  if (most < limits.connections) {
    log::Warning("fewer connections than could be served: few files may be open",
                 {{"connections", most}, {"limit_of_open_files", files}});
    limits.connections = most;
  }
  limits.of_one_address = std::min(limits.of_one_address, limits.connections);
  return limits;
}

void Watch(int epoll, int operation, int fd, uint64_t id, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  TIDE_CHECK(::epoll_ctl(epoll, operation, fd, &event) == 0, "a descriptor can be watched");
}

// Memory of a text; none of what lies in the object itself.
size_t BytesOf(const std::string& text) {
  return text.capacity() < sizeof(std::string) ? 0 : text.capacity();
}

}  // namespace

Gate::Gate(const GateLimits& limits,
           size_t workers,
           Service& service,
           GateCounters& counters,
           const ServerTls* tls)
    : limits_(WithinFileLimit(limits)),
      service_(service),
      counters_(counters),
      tls_(tls),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      last_id_(kWakeId),
      scratch_(kPiece),
      workers_(workers) {
  TIDE_CHECK(epoll_.valid() && wake_.valid(), "a few descriptors are there at the start");
  Watch(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), kWakeId, EPOLLIN);
}

Gate::~Gate() = default;

Result<int> Gate::Listen(const std::string& host, int port) {
  TIDE_ASSIGN(Listener listener, ListenOn(host, port));
  listener_ = std::move(listener.fd);
  Watch(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), kListenerId, EPOLLIN);
  return listener.port;
}

void Gate::Stop() {
  stopping_ = true;
  static_cast<void>(::eventfd_write(wake_.get(), 1));
}

void Gate::Run() {
  std::array<epoll_event, 128> events{};
  now_ = std::chrono::steady_clock::now();
  while (!Finished()) {
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), WaitMillis());
    now_ = std::chrono::steady_clock::now();
    for (int i = 0; i < ready; ++i) {
      OnEvent(events.at(static_cast<size_t>(i)).data.u64);
    }
    if (accept_at_ != Time() && accept_at_ <= now_) {
      accept_at_ = {};
      Watch(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), kListenerId, EPOLLIN);
    }
    CloseOverdue();
    KeepWithinBytes();
    if (stopping_ && listener_.valid()) {
      listener_.Close();
      accept_at_ = {};
      stop_after_ = now_ + kStopTime;
    }
  }
}

// Busy connections are waited for: a worker has them.
bool Gate::Finished() const {
  if (!stopping_ || listener_.valid() || busy_ > 0) {
    return false;
  }
  return now_ >= stop_after_ || std::ranges::none_of(connections_, [](const auto& entry) {
           return entry.second->phase == Phase::kFlush;
         });
}

int Gate::WaitMillis() const {
  Time until = deadlines_.empty() ? Time::max() : deadlines_.begin()->first;
  if (accept_at_ != Time()) {
    until = std::min(until, accept_at_);
  }
  if (stop_after_ != Time() && now_ < stop_after_) {
    until = std::min(until, stop_after_);
  }
  if (until == Time::max()) {
    return -1;
  }
  // Rounded up: a wait that ends just before the time would turn in circles until it has come.
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

void Gate::OnEvent(uint64_t id) {
  if (id == kListenerId) {
    AcceptAll();
  } else if (id == kWakeId) {
    TakeBack();
  } else if (const auto found = connections_.find(id);
             found != connections_.end() && !found->second->busy) {
    Drive(*found->second);
  }
}

void Gate::AcceptAll() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof peer;
    Fd fd(::accept4(
        listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      auto [address, share] = AddressOf(peer);
      Open(std::move(fd), address, share);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue. Watched on, it would wake the gate without end.
      if (!CloseLongestWaiting([](const Connection&) { return true; })) {
        accept_at_ = now_ + kAcceptPause;
        Watch(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), kListenerId, 0);
        return;
      }
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void Gate::Open(Fd fd, const std::string& address, const std::string& share) {
  if (!MakeRoom(address, share)) {
    ++counters_.crowded;
    return;
  }
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(
      fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
  SSL* const tls = tls_ == nullptr ? nullptr : tls_->NewConnection();
  if (tls_ != nullptr && tls == nullptr) {
    ++counters_.crowded;  // no memory for it; it must not be served in clear
    return;
  }
  const uint64_t id = ++last_id_;
  auto& connection =
      *connections_
           .emplace(id,
                    std::make_unique<Connection>(Connection{.id = id,
                                                            .socket = Socket(std::move(fd), tls),
                                                            .address = address,
                                                            .share = share}))
           .first->second;
  ++shares_[share];
  counters_.open = connections_.size();
  Watch(epoll_.get(), EPOLL_CTL_ADD, connection.socket.fd(), id, EPOLLONESHOT);
  Enter(connection, Phase::kHandshake);
  Drive(connection);
}

void Gate::TakeBack() {
  eventfd_t ignored = 0;
  static_cast<void>(::eventfd_read(wake_.get(), &ignored));
  std::vector<uint64_t> returned;
  {
    const std::scoped_lock lock(mutex_);
    returned.swap(returned_);
  }
  for (const uint64_t id : returned) {
    --busy_;
    Connection& connection = *connections_.at(id);
    connection.busy = false;
    busy_held_ -= connection.counted;
    held_ += connection.counted;
    Enter(connection, connection.phase);
    if (connection.broken) {
      Close(connection);
    } else {
      Drive(connection);
    }
  }
  counters_.busy = busy_;
}

void Gate::Drive(Connection& connection) {
  Wait wait = Wait::kNothing;
  while (wait == Wait::kNothing && !connection.busy) {
    wait = Step(connection);
  }
  if (connection.busy) {
    return;
  }
  if (wait == Wait::kOver || connection.broken) {
    Close(connection);
    return;
  }
  Count(connection);
  Arm(connection, wait);
}

// Returns what it waits for; nothing: it goes on in the phase it is in now.
auto Gate::Step(Connection& connection) -> Wait {
  switch (connection.phase) {
    case Phase::kHandshake:
      return ShakeHands(connection);
    case Phase::kHead:
      return ReadHead(connection);
    case Phase::kBody:
      return ReadBody(connection);
    case Phase::kFlush:
      return Flush(connection);
    case Phase::kLinger:
      return Linger(connection);
  }
  return Wait::kNothing;
}

auto Gate::ShakeHands(Connection& connection) -> Wait {
  const Wait wait = connection.socket.Handshake();
  if (wait == Wait::kNothing) {
    Enter(connection, Phase::kHead);
  }
  return wait;
}

auto Gate::ReadHead(Connection& connection) -> Wait {
  std::string& input = connection.input;
  while (true) {
    const size_t end = FindHeadEnd(input, connection.searched);
    if (end > kHeadMax || (end == 0 && input.size() > kHeadMax)) {
      Refuse(connection,
             {431, "too_large", "the head of a request may have up to 32 KiB; send fewer headers"});
      return Wait::kNothing;
    }
    if (end > 0) {
      Begin(connection, end);
      return Wait::kNothing;
    }
    connection.searched = input.size();
    const Socket::Moved moved = connection.socket.Read(scratch_);
    if (moved.bytes == 0) {
      return moved.wait;
    }
    if (input.empty()) {
      SetDeadline(connection, now_ + limits_.head);
    }
    input.append(scratch_.data(), moved.bytes);
  }
}

void Gate::Begin(Connection& connection, size_t head_end) {
  auto head = ParseHead(std::string_view(connection.input).substr(0, head_end));
  connection.input.erase(0, head_end);
  connection.searched = 0;
  if (!head) {
    Refuse(connection, head.error());
    return;
  }
  const std::string coding = head->Header("content-encoding");
  BodyReader body(*head, limits_.body);
  connection.incoming = std::make_unique<Incoming>(
      Incoming{.head = *std::move(head), .head_bytes = head_end, .body = std::move(body)});
  if (!coding.empty() && coding != "identity") {
    Refuse(connection,
           {415, "unsupported_type", "bodies are read as they are; send it without encoding"});
    return;
  }
  connection.input.erase(0, connection.incoming->body.Take(connection.input));
  GoOnWithBody(connection);
}

auto Gate::ReadBody(Connection& connection) -> Wait {
  while (connection.incoming->body.state() == BodyReader::State::kMore) {
    const Socket::Moved moved = connection.socket.Read(scratch_);
    if (moved.bytes == 0) {
      return moved.wait;
    }
    const std::string_view bytes(scratch_.data(), moved.bytes);
    connection.input.append(bytes.substr(connection.incoming->body.Take(bytes)));
  }
  GoOnWithBody(connection);
  return Wait::kNothing;
}

void Gate::GoOnWithBody(Connection& connection) {
  switch (connection.incoming->body.state()) {
    case BodyReader::State::kMore:
    case BodyReader::State::kWhole:
      HandToWorker(connection);
      break;
    case BodyReader::State::kTooLong:
      Refuse(connection, {413, "too_large", "the body is too long; one may have up to 1 MiB"});
      break;
    case BodyReader::State::kBroken:
      Refuse(connection, {400, "bad_request", "the body is not in chunks as the head says"});
      break;
  }
}

void Gate::HandToWorker(Connection& connection) {
  Count(connection);
  if (busy_ > 0 && busy_held_ + connection.counted > limits_.busy_bytes) {
    Refuse(connection,
           {503, "unavailable", "too many large requests at once; send it again in a moment"});
    return;
  }
  Forget(connection);
  held_ -= connection.counted;
  busy_held_ += connection.counted;
  connection.busy = true;
  counters_.busy = ++busy_;
  workers_.Do([this, &connection] {
    const uint64_t id = connection.id;
    Exchange(connection, service_, limits_.stuck);
    {
      const std::scoped_lock lock(mutex_);
      returned_.push_back(id);
    }
    static_cast<void>(::eventfd_write(wake_.get(), 1));
  });
}

void Gate::Refuse(Connection& connection, const Refusal& refusal) {
  ++counters_.refused;
  AnswerAndClose(connection, service_.Refuse(refusal));
  Enter(connection, connection.phase);
}

auto Gate::Flush(Connection& connection) -> Wait {
  while (connection.sent < connection.output.size()) {
    const Socket::Moved moved =
        connection.socket.Write(std::string_view(connection.output).substr(connection.sent));
    if (moved.bytes == 0) {
      return moved.wait;
    }
    connection.sent += moved.bytes;
    SetDeadline(connection, now_ + limits_.stuck);
  }
  std::string().swap(connection.output);
  if (connection.closes) {
    connection.socket.EndWriting();
  }
  Enter(connection, connection.closes ? Phase::kLinger : Phase::kHead);
  return Wait::kNothing;
}

auto Gate::Linger(Connection& connection) -> Wait {
  for (int i = 0; i < kDiscardedAtOnce; ++i) {
    const Socket::Moved moved = connection.socket.Read(scratch_);
    if (moved.bytes == 0) {
      return moved.wait;
    }
  }
  return Wait::kReadable;
}

void Gate::Enter(Connection& connection, Phase phase) {
  Forget(connection);
  connection.phase = phase;
  connection.since = now_;
  waiting_.emplace(now_, connection.id);
  SetDeadline(connection, now_ + TimeFor(connection));
  if (phase == Phase::kLinger) {
    std::string().swap(connection.input);
    connection.incoming.reset();
  } else if (phase == Phase::kHead && connection.input.empty()) {
    std::string().swap(connection.input);  // an idle connection holds nothing
  }
}

milliseconds Gate::TimeFor(const Connection& connection) const {
  switch (connection.phase) {
    case Phase::kHandshake:
      return limits_.handshake;
    case Phase::kHead:
      return connection.input.empty() ? limits_.idle : limits_.head;
    case Phase::kBody:
      return limits_.whole_body;
    case Phase::kFlush:
      return limits_.stuck;
    case Phase::kLinger:
      break;
  }
  return limits_.linger;
}

void Gate::SetDeadline(Connection& connection, Time deadline) {
  deadlines_.erase({connection.deadline, connection.id});
  connection.deadline = deadline;
  deadlines_.emplace(deadline, connection.id);
}

void Gate::Arm(const Connection& connection, Wait wait) {
  const uint32_t events = wait == Wait::kWritable ? EPOLLOUT : EPOLLIN;
  Watch(epoll_.get(), EPOLL_CTL_MOD, connection.socket.fd(), connection.id, events | EPOLLONESHOT);
}

void Gate::Count(Connection& connection) {
  const size_t of_request = connection.incoming ? connection.incoming->head_bytes +
                                                      BytesOf(connection.incoming->body.body())
                                                : 0;
  const size_t bytes = BytesOf(connection.input) + BytesOf(connection.output) + of_request;
  held_ += bytes - connection.counted;
  connection.counted = bytes;
}

void Gate::Forget(const Connection& connection) {
  deadlines_.erase({connection.deadline, connection.id});
  waiting_.erase({connection.since, connection.id});
}

void Gate::Close(Connection& connection) {
  Forget(connection);
  held_ -= connection.counted;
  const auto share = shares_.find(connection.share);
  if (--share->second == 0) {
    shares_.erase(share);
  }
  connections_.erase(connection.id);
  counters_.open = connections_.size();
}

// Answers those who sent a part of a request; closes everything else without a word.
void Gate::CloseOverdue() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    Connection& connection = *connections_.at(deadlines_.begin()->second);
    ++counters_.overdue;
    const bool is_idle = connection.phase == Phase::kHead && connection.input.empty();
    if (!is_idle && (connection.phase == Phase::kHead || connection.phase == Phase::kBody)) {
      Refuse(connection,
             {408, "too_slow", "the request did not come whole in time; send it again, faster"});
      Drive(connection);
    } else {
      Close(connection);
    }
  }
}

void Gate::KeepWithinBytes() {
  while (held_ > limits_.held_bytes &&
         CloseLongestWaiting([](const Connection& each) { return each.counted > 0; })) {
  }
}

bool Gate::CloseLongestWaiting(const std::function<bool(const Connection&)>& matches) {
  const auto found = std::ranges::find_if(waiting_, [&](const std::pair<Time, uint64_t>& entry) {
    return matches(*connections_.at(entry.second));
  });
  if (found == waiting_.end()) {
    return false;
  }
  ++counters_.crowded;
  Close(*connections_.at(found->second));
  return true;
}

// False where all of this share, or all that there are, are busy.
bool Gate::MakeRoom(const std::string& address, const std::string& share) {
  const auto of_share = shares_.find(share);
  const bool share_full = of_share != shares_.end() && of_share->second >= limits_.of_one_address &&
                          !service_.StandsForMany(address);
  if (share_full &&
      !CloseLongestWaiting([&share](const Connection& each) { return each.share == share; })) {
    return false;
  }
  return connections_.size() < limits_.connections ||
         CloseLongestWaiting([](const Connection&) { return true; });
}

}  // namespace tide::api
