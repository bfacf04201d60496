#include "common/health/rank_check.h"

#include <catch2/catch.hpp>

#include "common/base/prng.h"

namespace tide::health {
namespace {

RankTick Rank(uint32_t rank, int64_t step, int64_t age_s) {
  return {.rank = rank,
          .step = step,
          .age = Duration::Seconds(age_s),
          .phase = 1,
          .step_time = Duration::Seconds(1),
          .state = 'S'};
}

std::vector<RankTick> Ranks(uint32_t count, int64_t step, int64_t age_s) {
  std::vector<RankTick> ranks;
  for (uint32_t rank = 0; rank < count; ++rank) {
    ranks.push_back(Rank(rank, step, age_s));
  }
  return ranks;
}

}  // namespace

TEST_CASE("a gang that gets on is not stalled", "[ranks]") {
  CHECK_FALSE(JudgeRanks({}).stalled);
  CHECK_FALSE(JudgeRanks(Ranks(8, 100, 15)).stalled);
  CHECK(JudgeRanks(Ranks(8, 100, 16)).stalled);
  std::vector<RankTick> one_ticks = Ranks(8, 100, 1000);
  one_ticks[3].age = Duration::Seconds(1);
  CHECK_FALSE(JudgeRanks(one_ticks).stalled);
}

TEST_CASE("how long a silence may be goes by the longest step", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(4, 100, 60);
  CHECK(JudgeRanks(ranks).stalled);
  ranks[2].step_time = Duration::Seconds(30);
  CHECK(JudgeRanks(ranks).limit == Duration::Seconds(65));
  CHECK(JudgeRanks(ranks).step_time == Duration::Seconds(1));
  CHECK_FALSE(JudgeRanks(ranks).stalled);
}

TEST_CASE("evaluations and saves take as long as they take", "[ranks]") {
  for (const uint32_t phase : {3U, 4U, 5U}) {
    std::vector<RankTick> ranks = Ranks(4, 100, 1700);
    ranks[1].phase = phase;
    CHECK_FALSE(JudgeRanks(ranks).stalled);
    ranks = Ranks(4, 100, 1801);
    ranks[1].phase = phase;
    CHECK(JudgeRanks(ranks).stalled);
  }
}

TEST_CASE("ranks that have not begun or are done say nothing", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(4, 100, 100);
  ranks[0].phase = 0;
  ranks[1].phase = 6;
  ranks[2].age = Duration();
  ranks[3].step = -1;
  CHECK_FALSE(JudgeRanks(ranks).stalled);
}

TEST_CASE("the odd one is named by the best evidence there is", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(8, 100, 60);
  CHECK(JudgeRanks(ranks).odd.empty());
  for (RankTick& rank : ranks) {
    rank.place = rank.rank == 4 ? "lock (train.py:9)" : "all_reduce (distributed_c10d.py:2050)";
  }
  CHECK(JudgeRanks(ranks).odd ==
        std::vector<OddRank>{{4,
                              "in lock (train.py:9), while most ranks are in all_reduce "
                              "(distributed_c10d.py:2050)"}});
  ranks[6].place = "";  // it may be anywhere
  CHECK(JudgeRanks(ranks).odd.empty());
  ranks[2].phase = 2;
  CHECK(JudgeRanks(ranks).odd ==
        std::vector<OddRank>{{2, "waiting, while most ranks are training"}});
  ranks[5].step = 98;
  CHECK(JudgeRanks(ranks).odd == std::vector<OddRank>{{5, "2 steps behind most ranks"}});
  ranks[7].state = 'T';
  CHECK(JudgeRanks(ranks).odd ==
        std::vector<OddRank>{{7, "its process is stopped (SIGSTOP, or a debugger)", 'T'}});
}

TEST_CASE("what half of the ranks have in common is not odd", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(4, 100, 60);
  for (const size_t i : {0U, 1U, 2U}) {
    ranks[i].state = 'D';  // a file server that hangs
  }
  CHECK(JudgeRanks(ranks).odd.empty());
  ranks[2].state = 'S';
  CHECK(JudgeRanks(ranks).odd.size() == 2);
}

TEST_CASE("of two ranks the odd one is the one outside of the collective", "[ranks]") {
  for (const size_t odd : {0U, 1U}) {
    std::vector<RankTick> ranks = Ranks(2, 100, 60);
    ranks[odd].place = odd == 0 ? "a_lock (train.py:9)" : "z_lock (train.py:9)";
    ranks[1 - odd].place = "all_reduce (distributed_c10d.py:2050)";
    const std::vector<OddRank> found = JudgeRanks(ranks).odd;
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == odd);
  }
}

TEST_CASE("an end of a link over which nothing gets through is named", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(8, 100, 60);
  for (RankTick& rank : ranks) {
    rank.addresses = {"10.0.0." + std::to_string(rank.rank)};
    rank.place = "all_reduce (distributed_c10d.py:2050)";
  }
  CHECK(JudgeRanks(ranks).odd.empty());
  ranks[3].unanswered = {"10.0.0.4"};
  CHECK(JudgeRanks(ranks).odd ==
        std::vector<OddRank>{{3, "what it sends to 10.0.0.4 is not acknowledged"},
                             {4, "what is sent to it is not acknowledged"}});
  ranks[2].unanswered = {"10.0.0.3"};  // it acknowledges nothing either: it is what they share
  CHECK(JudgeRanks(ranks).odd ==
        std::vector<OddRank>{{3, "what it sends to 10.0.0.4 is not acknowledged"}});
  ranks[4].step = 99;  // who did not get the message is behind: that follows from it
  CHECK(JudgeRanks(ranks).odd.front().rank == 3);
  ranks[6].state = 'T';
  CHECK(JudgeRanks(ranks).odd.front().rank == 6);
}

TEST_CASE("several ranks behind are named once a link had its time to be found", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(8, 100, 17);
  for (RankTick& rank : ranks) {
    rank.addresses = {"10.0.0." + std::to_string(rank.rank)};
  }
  for (const size_t behind : {2U, 3U, 4U}) {
    ranks[behind].step = 99;
    ranks[behind].age = Duration::Seconds(18);
  }
  ranks[4].phase = 2;
  CHECK(JudgeRanks(ranks).stalled);
  CHECK(JudgeRanks(ranks).odd.empty());  // most got the message: the link tells who did not
  std::vector<RankTick> with_link = ranks;
  with_link[1].unanswered = {"10.0.0.2"};
  CHECK(JudgeRanks(with_link).odd ==
        std::vector<OddRank>{{1, "what it sends to 10.0.0.2 is not acknowledged"},
                             {2, "what is sent to it is not acknowledged"}});
  for (RankTick& rank : ranks) {
    rank.age = rank.age + kLinksWithin;
  }
  REQUIRE(JudgeRanks(ranks).odd.size() == 3);
  CHECK(JudgeRanks(ranks).odd.front() == OddRank{2, "1 step behind most ranks"});
}

TEST_CASE("one rank behind is named at once", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(8, 100, 16);
  ranks[6].step = 99;
  CHECK(JudgeRanks(ranks).odd == std::vector<OddRank>{{6, "1 step behind most ranks"}});
}

TEST_CASE("links to others than ranks of the job say nothing", "[ranks]") {
  std::vector<RankTick> ranks = Ranks(4, 100, 60);
  for (RankTick& rank : ranks) {
    rank.addresses = {rank.rank < 2 ? "10.0.0.1" : "10.0.0.2"};
  }
  ranks[1].unanswered = {"192.168.0.7", "10.0.0.1"};  // a logging service; its own node
  CHECK(JudgeRanks(ranks).odd.empty());
  ranks[1].unanswered = {"10.0.0.2"};  // one of two ranks there: no rank stands out
  CHECK(JudgeRanks(ranks).odd.empty());
}

TEST_CASE("of random gangs the one that stopped is named, and no other", "[ranks]") {
  Prng prng(27);
  for (int i = 0; i < 2'000; ++i) {
    const auto count = static_cast<uint32_t>(4 + prng.Below(60));
    const auto step = static_cast<int64_t>(prng.Below(100'000));
    std::vector<RankTick> ranks = Ranks(count, step, 61);
    const auto odd = static_cast<uint32_t>(prng.Below(count));
    // The others may have got one step further before they began to wait.
    ranks[odd].step = step - static_cast<int64_t>(1 + prng.Below(2));
    ranks[odd].age = Duration::Seconds(62);
    const RanksVerdict verdict = JudgeRanks(ranks);
    REQUIRE(verdict.stalled);
    if (ranks[odd].step >= 0) {
      REQUIRE(verdict.odd.size() == 1);
      REQUIRE(verdict.odd[0].rank == odd);
    }
  }
}

}  // namespace tide::health
