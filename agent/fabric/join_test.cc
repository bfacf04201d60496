#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "agent/fabric/cluster_testing.h"
#include "agent/fabric/proof.h"
#include "agent/fabric/sockets.h"
#include "common/base/time.h"

namespace tide::allreduce {
namespace {

Work TinyWork() {
  Work work;
  work.elements = 1000;
  work.chunk = 100;
  work.iterations = 2;
  work.check = true;
  return work;
}

TEST_CASE("join: a stranger is refused, and the run goes on") {
  TestCluster cluster(TinyWork(), {0, 0, 0});
  const auto zero = cluster.Make(0);
  const auto one = cluster.Make(1);
  zero->Begin();
  one->Begin();

  // One that says nothing, one that says something else, and one with another token.
  const std::string& address = cluster.options().nodes[1];
  const auto silent = StartConnecting(address);
  REQUIRE(silent);
  const auto loud = StartConnecting(address);
  REQUIRE(loud);
  const int64_t deadline = MonotonicNanos() + 10'000'000'000;
  const HelloBytes noise{};
  Bytes32 challenge{};
  CHECK(ReadFully(*loud, challenge, -1, deadline));
  CHECK(WriteFully(*loud, noise, -1, deadline));
  const Status answer = ReadFully(*loud, challenge, -1, deadline);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::kUnavailable);  // closed without a word

  const auto stranger = cluster.Make(2, [](uint32_t, Work&, NodeOptions& options) {
    options.token = "fedcba9876543210fedcba9876543210";
  });
  stranger->Begin();
  const auto refused = stranger->End();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnauthenticated);
  CHECK_THAT(refused.error().message, Catch::Contains("node 2 → node "));

  const auto two = cluster.Make(2);
  two->Begin();
  for (const auto& node : {&zero, &one, &two}) {
    const auto report = (*node)->End();
    REQUIRE(report);
    CHECK(report->wrong_elements == 0);
  }
}

TEST_CASE("join: nodes with other arguments are told so") {
  TestCluster cluster(TinyWork(), {0, 0});
  const auto reports = cluster.Run([](uint32_t node, Work& work, NodeOptions&) {
    work.iterations += node;  // 2 and 3
  });
  bool told = false;
  for (const auto& report : reports) {
    REQUIRE_FALSE(report);
    told = told || report.error().code == ErrorCode::kConflict;
  }
  CHECK(told);
}

TEST_CASE("join: a node that never comes is named") {
  TestCluster cluster(TinyWork(), {0, 0});
  const auto one = cluster.Make(
      1, [](uint32_t, Work&, NodeOptions& options) { options.join_timeout_ns = 100'000'000; });
  one->Begin();
  const auto report = one->End();
  REQUIRE_FALSE(report);
  CHECK_THAT(report.error().message, Catch::Contains("node 0"));
  CHECK_THAT(report.error().message, Catch::Contains("→"));
}

TEST_CASE("join: addresses") {
  CHECK_FALSE(Listen("127.0.0.1"));
  CHECK_FALSE(Listen(":5000"));
  CHECK_FALSE(Listen("127.0.0.1:"));
  CHECK(Listen("127.0.0.1:0"));
}

TEST_CASE("proof: a hello is believed as it was sent, and not with any bit turned over") {
  const Hello hello = {3, 1, 1, DigestText("arguments"), MakeNonce()};
  const Bytes32 challenge = MakeNonce();
  const HelloBytes bytes = SealHello(hello, challenge, kTestToken);
  const auto opened = OpenHello(bytes, challenge, kTestToken);
  REQUIRE(opened);
  CHECK(opened->from == 3);
  CHECK(opened->to == 1);
  CHECK(opened->tree == 1);
  CHECK(opened->arguments == hello.arguments);
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    HelloBytes changed = bytes;
    changed[i / 8] = static_cast<unsigned char>(changed[i / 8] ^ (1U << (i % 8)));
    REQUIRE_FALSE(OpenHello(changed, challenge, kTestToken));
  }
  CHECK_FALSE(OpenHello(bytes, MakeNonce(), kTestToken));  // sent again
  CHECK_FALSE(OpenHello(bytes, challenge, "another token, of the same length"));
}

TEST_CASE("proof: an answer belongs to its hello") {
  const Hello hello = {3, 1, 1, DigestText("arguments"), MakeNonce()};
  const HelloBytes sent = SealHello(hello, MakeNonce(), kTestToken);
  const HelloBytes other = SealHello(hello, MakeNonce(), kTestToken);
  const AnswerBytes answer = SealAnswer(Answer::kOtherArguments, sent, kTestToken);
  CHECK(OpenAnswer(answer, sent, kTestToken) == Answer::kOtherArguments);
  CHECK_FALSE(OpenAnswer(answer, other, kTestToken));
  AnswerBytes changed = answer;
  changed[0] = static_cast<unsigned char>(Answer::kWelcome);
  CHECK_FALSE(OpenAnswer(changed, sent, kTestToken));
}

// Two ends of a link.
struct Pair {
  std::atomic<uint32_t> stop{0};
  std::unique_ptr<Halt> halt;
  std::unique_ptr<Link> below;
  std::unique_ptr<Link> above;

  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    halt = std::move(Halt::Make(stop).value());
    below = std::make_unique<Link>(Fd(ends[0]), Edge{1, 0, 0, true}, *halt, 20'000'000);
    above = std::make_unique<Link>(Fd(ends[1]), Edge{0, 1, 0, false}, *halt, 20'000'000);
  }
};

TEST_CASE("link: another frame than the one that is due is refused") {
  const FrameName due = {1, 2, 0, 3};
  std::vector<float> block(10);
  for (const FrameName& other : {FrameName{0, 2, 0, 3},
                                 FrameName{1, 3, 0, 3},
                                 FrameName{1, 2, 1, 3},
                                 FrameName{1, 2, 0, 4}}) {
    Pair pair;
    REQUIRE(pair.below->Send(other, block));
    const Status taken = pair.above->Receive(due, block);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == ErrorCode::kCorrupt);
    CHECK_THAT(taken.error().message, Catch::Contains("node 1 → node 0"));
  }
  Pair pair;
  REQUIRE(pair.below->Send(due, std::span(block).first(9)));
  CHECK_FALSE(pair.above->Receive(due, block));
}

TEST_CASE("link: silence, an end, and a halt are errors that name the edge") {
  Pair pair;
  std::vector<float> block(10);
  const Status silent = pair.above->Receive({}, block);
  REQUIRE_FALSE(silent);
  CHECK(silent.error().code == ErrorCode::kDeadlineExceeded);
  CHECK_THAT(silent.error().message, Catch::Contains("node 1 → node 0"));

  pair.halt->Raise({ErrorCode::kInternal, "elsewhere"});
  const Status halted = pair.above->Receive({}, block);
  REQUIRE_FALSE(halted);
  CHECK_THAT(halted.error().message, Catch::Contains("failed elsewhere"));

  pair.below.reset();
  const Status closed = pair.above->Receive({}, block);
  REQUIRE_FALSE(closed);
  CHECK(closed.error().message == "node 1 → node 0 (tree 0): closed by the peer");
}

}  // namespace
}  // namespace tide::allreduce
