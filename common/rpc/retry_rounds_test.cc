#include "common/rpc/retry_rounds.h"

#include <catch2/catch.hpp>
#include <set>

namespace tide::rpc {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST_CASE("all addresses are tried at once, then each fifth of a second or so") {
  RetryRounds rounds(3, 0, 1);
  int64_t now = 0;
  int64_t waited = 0;
  for (int round = 0; round < 1000; ++round) {
    CHECK(rounds.PauseNs(now) == 0);
    CHECK(rounds.PauseNs(now) == 0);
    const int64_t pause = rounds.PauseNs(now);
    CHECK(pause >= 100 * kMs);
    CHECK(pause < 300 * kMs);
    now += pause;
    waited += pause;
  }
  CHECK(waited > 190'000 * kMs);
  CHECK(waited < 210'000 * kMs);
}

TEST_CASE("what tries take is part of the round") {
  RetryRounds rounds(1, 0, 1);
  CHECK(rounds.PauseNs(90 * kMs) >= 10 * kMs);
  CHECK(RetryRounds(1, 0, 1).PauseNs(90 * kMs) < 210 * kMs);
}

TEST_CASE("agents that lose their leader in one moment come back in many") {
  std::set<int64_t> pauses;
  for (uint64_t agent = 0; agent < 100; ++agent) {
    pauses.insert(RetryRounds(1, 0, agent).PauseNs(0));
  }
  CHECK(pauses.size() == 100);
}

TEST_CASE("after a connection that lasted all are tried at once") {
  RetryRounds rounds(2, 0, 1);
  CHECK(rounds.PauseNs(60'000 * kMs) == 0);
  CHECK(rounds.PauseNs(60'001 * kMs) == 0);
  CHECK(rounds.PauseNs(60'002 * kMs) == 0);
  CHECK(rounds.PauseNs(60'003 * kMs) > 0);
}

TEST_CASE("a try that takes longer than a round is followed by the next one") {
  RetryRounds rounds(1, 0, 1);
  CHECK(rounds.PauseNs(20'000 * kMs) == 0);
}

}  // namespace
}  // namespace tide::rpc
