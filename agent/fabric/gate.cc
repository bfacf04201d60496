#include "agent/fabric/gate.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "agent/fabric/sockets.h"
#include "common/base/time.h"

namespace tide::allreduce {
namespace {

constexpr size_t kMostGuests = 64;
constexpr int64_t kPatience = 5'000'000'000;
constexpr int kLookMillis = 200;  // how often deadlines are looked at

}  // namespace

Gate::Gate(const JoinOptions& options,
           const std::vector<Edge>& expected,
           const Fd& listener,
           Halt& halt)
    : options_(options),
      listener_(listener),
      halt_(halt),
      arguments_(DigestText(options.arguments)) {
  for (const Edge& edge : expected) {
    missing_.emplace(Key{edge.tree, edge.peer}, Fd());
  }
}

void Gate::AcceptAll() {
  while (guests_.size() < kMostGuests) {
    Guest guest;
    guest.socket = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!guest.socket.valid()) {
      return;
    }
    SetNoDelay(guest.socket);
    guest.challenge = MakeNonce();
    guest.deadline = MonotonicNanos() + kPatience;
    // A fresh socket takes 32 bytes at once.
    if (::send(guest.socket.get(), guest.challenge.data(), guest.challenge.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(guest.challenge.size())) {
      guests_.push_back(std::move(guest));
    }
  }
}

Answer Gate::Judge(const Hello& hello) const {
  if (hello.arguments != arguments_) {
    return Answer::kOtherArguments;
  }
  const bool missing = hello.to == options_.self && missing_.contains({hello.tree, hello.from});
  return missing ? Answer::kWelcome : Answer::kNotExpected;
}

bool Gate::Hear(Guest& guest) {
  const ssize_t count =
      ::recv(guest.socket.get(), guest.hello.data() + guest.got, guest.hello.size() - guest.got, 0);
  if (count < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  guest.got += static_cast<size_t>(count);
  if (count == 0 || guest.got < guest.hello.size()) {
    return count > 0;
  }
  const auto hello = OpenHello(guest.hello, guest.challenge, options_.token);
  if (!hello) {
    return false;  // a stranger learns nothing
  }
  const Answer answer = Judge(*hello);
  const AnswerBytes bytes = SealAnswer(answer, guest.hello, options_.token);
  const bool sent = ::send(guest.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(bytes.size());
  if (sent && answer == Answer::kWelcome) {
    missing_.erase({hello->tree, hello->from});
    joined_.emplace(Key{hello->tree, hello->from}, std::move(guest.socket));
  }
  return false;
}

Status Gate::Run(int64_t deadline) {
  while (!missing_.empty()) {
    const int64_t now = MonotonicNanos();
    if (now >= deadline) {
      const auto& [tree, node] = missing_.begin()->first;
      return Fail(ErrorCode::kDeadlineExceeded,
                  EdgeName(node, options_.self) + " (tree " + std::to_string(tree) +
                      "): did not join in time");
    }
    std::erase_if(guests_, [now](const Guest& guest) { return now >= guest.deadline; });
    std::vector<pollfd> fds = {{halt_.fd(), POLLIN, 0}};
    for (const Guest& guest : guests_) {
      fds.push_back({guest.socket.get(), POLLIN, 0});
    }
    if (guests_.size() < kMostGuests) {
      fds.push_back({listener_.get(), POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), kLookMillis) < 0 && errno != EINTR) {
      return FailErrno("cannot wait for nodes", errno);
    }
    if (fds[0].revents != 0) {
      return Fail(ErrorCode::kUnavailable, "given up, as this node failed elsewhere");
    }
    std::vector<Guest> staying;
    for (size_t i = 0; i < guests_.size(); ++i) {
      if (fds[i + 1].revents == 0 || Hear(guests_[i])) {
        staying.push_back(std::move(guests_[i]));
      }
    }
    guests_ = std::move(staying);
    AcceptAll();
  }
  guests_.clear();
  return {};
}

Fd Gate::Take(const Edge& edge) {
  return std::move(joined_.at({edge.tree, edge.peer}));
}

}  // namespace tide::allreduce
