#include "agent/core/agreement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "common/base/prng.h"

namespace tide::agent {
namespace {

// One rank as docs/rank-protocol.md describes it, advanced step by step by the test.
struct FakeRank {
  int64_t step = 0;
  bool armed = false;
  bool committed = false;
  int64_t at_step = -1;
  std::optional<int64_t> stopped_at;
  bool dead = false;

  [[nodiscard]] bool waits() const { return armed && step >= at_step; }

  void Tick() {
    if (dead || stopped_at) {
      return;
    }
    if (committed && step >= at_step) {
      stopped_at = step;
    } else if (!waits()) {
      ++step;
    }
  }
};

// Ranks on several tasks, each a little faster or slower, with answers that may get lost.
class FakeGang {
 public:
  FakeGang(int tasks, int ranks_per_task, uint64_t seed) : prng_(seed) {
    tasks_.resize(static_cast<size_t>(tasks));
    for (auto& ranks : tasks_) {
      ranks.resize(static_cast<size_t>(ranks_per_task));
      for (FakeRank& rank : ranks) {
        rank.step = static_cast<int64_t>(prng_.Below(4));
      }
    }
  }

  std::vector<FakeRank>& task(size_t index) { return tasks_[index]; }

  void LetTrain(uint64_t ticks) {
    for (uint64_t i = 0; i < ticks; ++i) {
      auto& ranks = tasks_[prng_.Below(tasks_.size())];
      ranks[prng_.Below(ranks.size())].Tick();
    }
  }

  std::vector<AgreeReply> Hold(const AgreeRound& round, uint64_t loss_percent) {
    std::vector<AgreeReply> replies;
    for (auto& ranks : tasks_) {
      LetTrain(prng_.Below(6));  // each task is reached at another moment
      AgreeReply reply;
      const bool lost_request = prng_.Below(100) < loss_percent;
      if (!lost_request) {
        reply = Answer(ranks, round);
      }
      reply.answered = !lost_request && prng_.Below(100) >= loss_percent;
      replies.push_back(reply.answered ? reply : AgreeReply{});
    }
    return replies;
  }

  [[nodiscard]] std::vector<FakeRank*> All() {
    std::vector<FakeRank*> all;
    for (auto& ranks : tasks_) {
      for (FakeRank& rank : ranks) {
        all.push_back(&rank);
      }
    }
    return all;
  }

 private:
  AgreeReply Answer(std::vector<FakeRank>& ranks, const AgreeRound& round) {
    AgreeReply reply;
    reply.answered = reply.any_attached = reply.all_attached = reply.all_below = true;
    reply.min_step = INT64_MAX;
    reply.step_ns = 10'000'000;
    for (FakeRank& rank : ranks) {
      if (rank.dead) {
        ++reply.ranks_gone;
        continue;
      }
      if (round.verb == AgreeVerb::kArm && !rank.committed) {
        rank.armed = true;
        rank.at_step = round.at_step;
      } else if (round.verb == AgreeVerb::kCommit) {
        rank.armed = false;
        rank.committed = true;
        rank.at_step = round.at_step;
      } else if (round.verb == AgreeVerb::kDisarm && !rank.committed) {
        rank.armed = false;
      }
      reply.min_step = std::min(reply.min_step, rank.step);
      reply.max_step = std::max(reply.max_step, rank.step);
      reply.committed_step =
          std::max(reply.committed_step, rank.committed ? rank.at_step : int64_t{-1});
      reply.all_below = reply.all_below && rank.step < round.at_step;
    }
    return reply;
  }

  Prng prng_;
  std::vector<std::vector<FakeRank>> tasks_;
};

Instant At(int64_t millis) {
  return Instant::FromUnixNanos(1) + Duration::Millis(millis);
}

void RunToEnd(Agreement& agreement, FakeGang& gang, uint64_t loss_percent) {
  for (int round = 0; round < 5000 && !agreement.over(); ++round) {
    const AgreeRound next = agreement.Next();
    agreement.OnReplies(gang.Hold(next, loss_percent), At(0), At(5));
  }
  REQUIRE(agreement.over());
}

}  // namespace

TEST_CASE("all ranks stop at one step, whatever their speed and whatever gets lost") {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Prng prng(seed);
    FakeGang gang(1 + static_cast<int>(prng.Below(6)), 1 + static_cast<int>(prng.Below(4)), seed);
    Agreement agreement;
    const uint64_t loss = seed % 3 == 0 ? 10 : 0;
    if (seed % 5 == 0) {
      // A first coordinator dies at a random moment; the second one takes its place.
      Agreement first;
      for (uint64_t round = prng.Below(6); round > 0 && !first.over(); --round) {
        first.OnReplies(gang.Hold(first.Next(), loss), At(0), At(5));
      }
    }
    RunToEnd(agreement, gang, loss);
    REQUIRE(agreement.phase() == Agreement::Phase::kCommitted);
    gang.LetTrain(2000);
    for (int i = 0; i < 400; ++i) {
      gang.LetTrain(50);
    }
    for (const FakeRank* rank : gang.All()) {
      INFO("seed " << seed);
      REQUIRE(rank->stopped_at == agreement.stop_step());
    }
  }
}

TEST_CASE("without losses the stop is a few steps away") {
  FakeGang gang(2, 2, 7);
  Agreement agreement;
  int64_t highest = 0;
  for (const FakeRank* rank : gang.All()) {
    highest = std::max(highest, rank->step);
  }
  RunToEnd(agreement, gang, 0);
  CHECK(agreement.stop_step() <= highest + 20);
}

TEST_CASE("a dead rank aborts the order and disarms the others") {
  FakeGang gang(3, 2, 11);
  gang.task(1)[0].dead = true;
  Agreement agreement;
  RunToEnd(agreement, gang, 0);
  CHECK(agreement.phase() == Agreement::Phase::kAborted);
  for (const FakeRank* rank : gang.All()) {
    CHECK_FALSE(rank->armed);
    CHECK_FALSE(rank->committed);
  }
}

TEST_CASE("a withdrawal disarms, unless the step is decided") {
  FakeGang gang(2, 1, 3);
  Agreement agreement;
  agreement.OnReplies(gang.Hold(agreement.Next(), 0), At(0), At(1));
  REQUIRE(agreement.phase() == Agreement::Phase::kArming);
  agreement.Withdraw();
  RunToEnd(agreement, gang, 0);
  CHECK(agreement.phase() == Agreement::Phase::kAborted);

  Agreement committed;
  RunToEnd(committed, gang, 0);
  committed.Withdraw();
  CHECK(committed.phase() == Agreement::Phase::kCommitted);
}

TEST_CASE("ranks that are always beyond the step make no number overflow") {
  Agreement agreement;
  AgreeReply reply{.answered = true, .any_attached = true, .all_attached = true};
  reply.max_step = int64_t{1} << 53U;
  for (int round = 0; round < 200; ++round) {
    agreement.OnReplies({reply, reply}, At(0), At(1));
    REQUIRE(agreement.Next().at_step > reply.max_step);
    REQUIRE(agreement.Next().at_step < 2 * reply.max_step);
  }
}

TEST_CASE("an arming that took too long is repeated, not committed") {
  Agreement agreement;
  AgreeReply ready;
  ready.answered = ready.any_attached = ready.all_attached = ready.all_below = true;
  agreement.OnReplies({ready}, At(0), At(5));
  REQUIRE(agreement.phase() == Agreement::Phase::kArming);
  agreement.OnReplies({ready}, At(0), At(7000));
  CHECK(agreement.phase() == Agreement::Phase::kArming);
  agreement.OnReplies({ready}, At(0), At(5));
  CHECK(agreement.phase() == Agreement::Phase::kCommitting);
}

TEST_CASE("ranks without the SDK get a signal; ranks still starting are waited for") {
  Agreement agreement;
  AgreeReply unattached;
  unattached.answered = true;
  AgreeReply partly = unattached;
  partly.any_attached = true;
  agreement.OnReplies({partly, unattached}, At(0), At(5));
  CHECK(agreement.phase() == Agreement::Phase::kProbing);
  agreement.OnReplies({unattached, unattached}, At(0), At(5));
  REQUIRE(agreement.phase() == Agreement::Phase::kSignalling);
  agreement.OnReplies({unattached, unattached}, At(0), At(5));
  CHECK(agreement.phase() == Agreement::Phase::kSignalled);
}

TEST_CASE("a save gives way to whatever is in its way") {
  AgreeReply ready{.answered = true, .any_attached = true, .all_attached = true, .all_below = true};
  ready.order = AgreeOrder::kSave;
  AgreeReply busy = ready;
  busy.busy = true;
  AgreeReply old_release = ready;
  old_release.order = AgreeOrder::kSuspend;
  AgreeReply starting = ready;
  starting.all_attached = false;
  for (const AgreeReply& other : {busy, old_release, starting, AgreeReply{}}) {
    Agreement at_once(AgreeOrder::kSave);
    CHECK(at_once.Next().order == AgreeOrder::kSave);
    at_once.OnReplies({ready, other}, At(0), At(1));
    CHECK(at_once.phase() == Agreement::Phase::kAborted);  // nothing was armed

    Agreement armed(AgreeOrder::kSave);
    armed.OnReplies({ready, ready}, At(0), At(1));
    REQUIRE(armed.phase() == Agreement::Phase::kArming);
    armed.OnReplies({ready, other}, At(1), At(2));
    CHECK(armed.phase() == Agreement::Phase::kDisarming);
  }
  Agreement whole(AgreeOrder::kSave);
  whole.OnReplies({ready, ready}, At(0), At(1));
  whole.OnReplies({ready, ready}, At(1), At(2));
  CHECK(whole.Next().verb == AgreeVerb::kCommit);
  CHECK(whole.Next().order == AgreeOrder::kSave);
}

}  // namespace tide::agent
