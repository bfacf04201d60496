#include "agent/core/agreement_run.h"

#include <catch2/catch.hpp>

namespace tide::agent {
namespace {

Instant At(int64_t ms) {
  return Instant::FromUnixNanos(1'000'000'000) + Duration::Millis(ms);
}

AgreeReply Training(int64_t step) {
  return {.answered = true,
          .min_step = step,
          .max_step = step,
          .any_attached = true,
          .all_attached = true,
          .all_below = true,
          .step_ns = 1'000'000'000};
}

// Holds the next round at `ms`; it is answered at once.
AgreeRound Hold(AgreementRun& run, int64_t ms, const AgreeReply& reply) {
  REQUIRE(run.MayHold(At(ms)));
  const AgreeRound round = run.Next();
  run.OnReplies({reply}, At(ms), At(ms));
  return round;
}

constexpr int64_t kDeadline = 100'000'000'000;

}  // namespace

TEST_CASE("a step that may be committed somewhere stands, however often the order is given") {
  AgreementRun run(kDeadline);
  Hold(run, 0, Training(11));
  CHECK(Hold(run, 1, Training(11)).verb == AgreeVerb::kArm);
  run.Withdraw();
  const AgreeRound commit = run.Next();
  REQUIRE(commit.verb == AgreeVerb::kCommit);
  Hold(run, 2, {});  // lost, or only late
  REQUIRE(run.Renew(kDeadline));
  Hold(run, 3, {});
  const AgreeRound again = run.Next();
  CHECK(again.verb == AgreeVerb::kCommit);
  CHECK(again.at_step == commit.at_step);
}

TEST_CASE("a withdrawal that is known before the commit is sent keeps it from being sent") {
  AgreementRun run(kDeadline);
  Hold(run, 0, Training(11));
  REQUIRE(run.Next().verb == AgreeVerb::kArm);
  run.Withdraw();
  Hold(run, 1, Training(11));  // all below: it would commit
  CHECK(run.Next().verb == AgreeVerb::kDisarm);
  Hold(run, 2, Training(11));
  CHECK(run.phase() == Agreement::Phase::kAborted);
}

TEST_CASE("a withdrawal comes too late for a step that an earlier leader committed") {
  AgreementRun run(kDeadline);
  run.Withdraw();
  AgreeReply committed = Training(11);
  committed.committed_step = 12;
  Hold(run, 0, committed);
  CHECK(run.Next().verb == AgreeVerb::kCommit);
  CHECK(run.Next().at_step == 12);
}

TEST_CASE("a withdrawn agreement that is renewed probes before it arms") {
  AgreementRun run(kDeadline);
  Hold(run, 0, Training(11));
  run.Withdraw();
  REQUIRE(run.Renew(kDeadline));
  Hold(run, 1, {});
  CHECK(run.Next().verb == AgreeVerb::kProbe);
}

TEST_CASE("the numbers of rounds grow, past the clock and past what tasks have seen") {
  AgreementRun run(kDeadline);
  const uint64_t first = Hold(run, 5, Training(3)).number;
  CHECK(first == static_cast<uint64_t>(At(5).unix_nanos()));
  CHECK(Hold(run, 2, {}).number == first + 1);  // the clock stepped back
  Hold(run, 3, {.newest_round = first + 1'000'000'000});
  CHECK(Hold(run, 4, {}).number == first + 1'000'000'001);
}

TEST_CASE("a run ends at its deadline") {
  AgreementRun run(At(10).unix_nanos());
  CHECK(run.MayHold(At(10)));
  CHECK_FALSE(run.MayHold(At(11)));
  CHECK(run.over());
  CHECK(run.phase() == Agreement::Phase::kAborted);
  CHECK_FALSE(run.Renew(kDeadline));
}

}  // namespace tide::agent
