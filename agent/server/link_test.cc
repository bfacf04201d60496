#include "agent/server/link.h"

#include "agent/server/testing/fake_scheduler.h"

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
