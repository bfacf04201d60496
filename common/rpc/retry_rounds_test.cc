#include "common/rpc/retry_rounds.h"

#include <catch2/catch.hpp>

namespace tide::rpc {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST_CASE("all addresses are tried at once, then each fifth of a second") {
  RetryRounds rounds(3, 0);
  CHECK(rounds.PauseNs(1 * kMs) == 0);
  CHECK(rounds.PauseNs(2 * kMs) == 0);
  CHECK(rounds.PauseNs(3 * kMs) == 197 * kMs);
  CHECK(rounds.PauseNs(201 * kMs) == 0);
  CHECK(rounds.PauseNs(202 * kMs) == 0);
  CHECK(rounds.PauseNs(202 * kMs) == 198 * kMs);
}

TEST_CASE("one address is tried at most five times a second") {
  RetryRounds rounds(1, 0);
  CHECK(rounds.PauseNs(1 * kMs) == 199 * kMs);
  CHECK(rounds.PauseNs(201 * kMs) == 199 * kMs);
}

TEST_CASE("after a connection that lasted all are tried at once") {
  RetryRounds rounds(2, 0);
  CHECK(rounds.PauseNs(60'000 * kMs) == 0);
  CHECK(rounds.PauseNs(60'001 * kMs) == 0);
  CHECK(rounds.PauseNs(60'002 * kMs) == 0);
  CHECK(rounds.PauseNs(60'003 * kMs) == 198 * kMs);
}

TEST_CASE("a try that takes longer than a round is followed by the next one") {
  RetryRounds rounds(1, 0);
  CHECK(rounds.PauseNs(20'000 * kMs) == 0);
}

}  // namespace
}  // namespace tide::rpc
