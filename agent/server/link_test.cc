#include "agent/server/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "agent/server/testing/fake_scheduler.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

struct Ends {
  TestDir dir;
  std::string address = "unix:" + dir.File("s.sock");
  rpc::ClusterToken token{"0123456789abcdef"};
  std::atomic<uint64_t> stream = 0;
  std::atomic<uint64_t> lost = 0;
  std::atomic<int> messages = 0;
  Link link{{address},
            token,
            {[this](uint64_t id) {
               stream = id;
               link.Send(id, Named("n" + std::to_string(id)));
             },
             [this](uint64_t id, const tide::v1::SchedulerMessage&) {
               messages += id == stream ? 1 : 100;
             },
             [this](uint64_t id) { lost = id; }}};

  static tide::v1::AgentMessage Named(const std::string& name) {
    tide::v1::AgentMessage message;
    message.mutable_hello()->mutable_node()->set_name(name);
    return message;
  }
};

TEST_CASE("the agent dials until there is a scheduler, and again when it is gone") {
  Ends ends;
  ends.link.Start();
  REQUIRE(Eventually([&] { return ends.lost > 0; }));
  FakeScheduler scheduler(ends.address, ends.token);
  REQUIRE(Eventually([&] { return scheduler.hellos().size() == 1; }));
  const uint64_t first = ends.stream;
  scheduler.Welcome();
  REQUIRE(Eventually([&] { return ends.messages == 1; }));
  ends.link.Send(first, Ends::Named("again"));
  REQUIRE(Eventually([&] { return scheduler.hellos().size() == 2; }));

  scheduler.Stop();
  REQUIRE(Eventually([&] { return ends.lost >= first; }));
  ends.link.Send(first, Ends::Named("of a stream that is over"));
  scheduler.Serve();
  REQUIRE(Eventually([&] { return scheduler.hellos().size() == 3; }));
  CHECK(scheduler.hellos().back().node().name() == "n" + std::to_string(ends.stream));
  CHECK(ends.stream > first);
  ends.link.Stop();
  CHECK(Eventually([&] { return !scheduler.connected(); }));
}

// Before a scheduler: its first words to each connection take their time, as over a long way, or
// from a machine to which thousands of agents connect at once.
class SlowDoor {
 public:
  SlowDoor(const std::string& path, const std::string& scheduler, int64_t delay_ms)
      : scheduler_(scheduler), delay_ns_(delay_ms * 1'000'000) {
    const sockaddr_un address = AddressOf(path);
    REQUIRE(::bind(listen_.get(), Generic(address), sizeof address) == 0);
    REQUIRE(::listen(listen_.get(), 16) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  SlowDoor(const SlowDoor&) = delete;
  SlowDoor& operator=(const SlowDoor&) = delete;
  ~SlowDoor() {
    stop_ = true;
    thread_.join();
  }

 private:
  struct Passage {
    Fd agent;
    Fd scheduler;
    int64_t opens_ns = 0;
  };

  static Fd NewSocket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
  static sockaddr_un AddressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
  }
  static const sockaddr* Generic(const sockaddr_un& address) {
    const void* any = &address;
    return static_cast<const sockaddr*>(any);
  }

  static void Forward(const Fd& from, const Fd& to) {
    std::array<char, 65536> bytes{};
    const ssize_t n = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      (void)::send(to.get(), bytes.data(), static_cast<size_t>(n), MSG_NOSIGNAL);
    } else if (n == 0) {
      ::shutdown(to.get(), SHUT_WR);
    }
  }

  void Run() {
    while (!stop_) {
      pollfd door{listen_.get(), POLLIN, 0};
      if (::poll(&door, 1, 1) > 0) {
        Passage passage{Fd(::accept(listen_.get(), nullptr, nullptr)),
                        NewSocket(),
                        MonotonicNanos() + delay_ns_};
        const sockaddr_un address = AddressOf(scheduler_);
        (void)::connect(passage.scheduler.get(), Generic(address), sizeof address);
        passages_.push_back(std::move(passage));
      }
      for (const Passage& each : passages_) {
        Forward(each.agent, each.scheduler);
        if (MonotonicNanos() >= each.opens_ns) {
          Forward(each.scheduler, each.agent);
        }
      }
    }
  }

  const std::string scheduler_;
  const int64_t delay_ns_;
  const Fd listen_ = NewSocket();
  std::atomic<bool> stop_ = false;
  std::vector<Passage> passages_;
  std::thread thread_;
};

TEST_CASE("of several schedulers one that is slow to connect is reached, too") {
  TestDir dir;
  const rpc::ClusterToken token{"0123456789abcdef"};
  FakeScheduler scheduler("unix:" + dir.File("s.sock"), token);
  const SlowDoor door(dir.File("door.sock"), dir.File("s.sock"), 500);
  std::unique_ptr<Link> link;
  link = std::make_unique<Link>(
      std::vector<std::string>{"unix:" + dir.File("door.sock"), "unix:" + dir.File("nobody.sock")},
      token,
      Link::Callbacks{[&](uint64_t id) { link->Send(id, Ends::Named("n")); },
                      [](uint64_t, const tide::v1::SchedulerMessage&) {},
                      [](uint64_t) {}});
  link->Start();
  CHECK(Eventually([&] { return !scheduler.hellos().empty(); }));
  link->Stop();
}

TEST_CASE("an agent that was refused asks again, but not at once") {
  Ends ends;
  FakeScheduler scheduler(ends.address, ends.token);
  ends.link.Start();
  REQUIRE(Eventually([&] { return scheduler.hellos().size() == 1; }));
  tide::v1::SchedulerMessage refusal;
  refusal.mutable_refused()->set_message("not in the cluster file");
  scheduler.Send(refusal);
  REQUIRE(Eventually([&] { return ends.messages == 1; }));
  const auto refused = std::chrono::steady_clock::now();
  scheduler.Stop();
  scheduler.Serve();
  REQUIRE(Eventually([&] { return scheduler.hellos().size() == 2; }));
  CHECK(std::chrono::steady_clock::now() - refused >= std::chrono::seconds(1));
}

TEST_CASE("stopping is quick, with and without a scheduler") {
  for (const bool served : {false, true}) {
    Ends ends;
    std::unique_ptr<FakeScheduler> scheduler;
    if (served) {
      scheduler = std::make_unique<FakeScheduler>(ends.address, ends.token);
    }
    ends.link.Start();
    REQUIRE(Eventually([&] { return served ? scheduler->connected() : ends.lost > 0; }));
    const auto start = std::chrono::steady_clock::now();
    ends.link.Stop();
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  }
}

TEST_CASE("a wrong token gets no stream") {
  Ends ends;
  FakeScheduler scheduler(ends.address, rpc::ClusterToken("another-secret-!"));
  ends.link.Start();
  REQUIRE(Eventually([&] { return ends.lost > 1; }));
  CHECK(scheduler.hellos().empty());
  ends.link.Stop();
}

}  // namespace
}  // namespace tide::agent
