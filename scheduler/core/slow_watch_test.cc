#include "scheduler/core/slow_watch.h"

#include <catch2/catch.hpp>
#include <functional>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr int64_t kUsualMs = 200;

// A gang of four nodes with two ranks on each.
struct Paced : World {
  SlowWatch watch;
  JobId job;
  std::vector<RankPace> ranks = std::vector<RankPace>(8);

  Paced() : World(Cluster().Leaf(4)) {
    JobSpec spec = AJob().Nodes(4).Spec();
    spec.ranks_per_node = 2;
    job = JobId(state.next_job_id);
    (void)Do(JobSubmitted{job, spec, "ada", ""});
    REQUIRE(Is(job) == JobState::kRunning);
  }
  using PaceOf = std::function<int64_t(uint32_t)>;  // of a rank, in milliseconds

  // A window in which each rank makes ten steps.
  void Window(const PaceOf& compute_ms, int64_t step_ms = 300, int64_t steps = 10) {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].step += steps;
      ranks[rank].pace = Duration::Millis(step_ms);
      ranks[rank].compute = Duration::Millis(compute_ms(rank));
    }
    for (const EventBody& event :
         watch.Check(state, {{job, At(job).attempts.back().epoch, ranks}})) {
      (void)Do(event);
    }
  }
  [[nodiscard]] std::string Text(NoteKind kind) const {
    const JobNote* note = FindNote(At(job).attempts.back(), kind);
    return note == nullptr ? "" : note->text;
  }
};

int64_t Usual(uint32_t /*rank*/) {
  return kUsualMs;
}

// Rank 5 computes so long.
Paced::PaceOf Five(int64_t ms) {
  return [ms](uint32_t rank) { return rank == 5 ? ms : kUsualMs; };
}

}  // namespace

TEST_CASE("a rank that is slow in three of five windows is named with its node, once") {
  struct {
    const char* what;
    int64_t slow_ms;
    std::string windows;  // S: it is slow in this one
    bool named;
  } const rows[] = {
      {"never", 215, ".....................", false},
      {"three in a row", 215, "..SSS", true},
      {"two in a row", 215, "..SS...", false},
      {"three of five", 215, "S.S.S", true},
      {"two of each five", 215, "S..S.S..S.S..S.", false},
      {"not by enough", 213, "SSSSSSSSSSSSS", false},
      {"by seven percent", 214, "SSS", true},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    Paced paced;
    for (const char window : row.windows) {
      paced.Window(window == 'S' ? Five(row.slow_ms) : Usual);
    }
    CHECK(paced.Text(NoteKind::kSlowRank).empty() != row.named);
    CHECK(paced.Is(paced.job) == JobState::kRunning);
  }
  Paced paced;
  for (int i = 0; i < 8; ++i) {
    paced.Window(Five(250));
  }
  CHECK(paced.Text(NoteKind::kSlowRank) ==
        "rank 5 on " + paced.state.nodes[2].identity.name +
            " is slow: it computes 25 % longer (250 ms against 200 ms) than its peers");
  CHECK(paced.At(paced.job).attempts.back().notes.front().step == 29);
  CHECK(paced.NodeIs(2) == NodeState::kReady);  // a slow verdict takes no node out
}

TEST_CASE("ranks that say nothing of what they compute are not judged") {
  Paced paced;
  for (int i = 0; i < 10; ++i) {
    paced.Window([](uint32_t) { return 0; });
  }
  CHECK(paced.At(paced.job).attempts.back().notes.empty());
  SECTION("nor is one that alone does") {
    for (int i = 0; i < 10; ++i) {
      paced.Window([](uint32_t rank) { return rank == 3 ? 400 : 0; });
    }
    CHECK(paced.At(paced.job).attempts.back().notes.empty());
  }
}

TEST_CASE("a window lasts until each rank has made a step") {
  Paced paced;
  paced.Window(Usual);
  for (int i = 0; i < 20; ++i) {
    paced.Window(Five(400), 300, 0);  // an evaluation: nothing new is known
  }
  CHECK(paced.Text(NoteKind::kSlowRank).empty());
  paced.Window(Five(400));
  paced.Window(Five(400));
  CHECK(paced.Text(NoteKind::kSlowRank).empty());
  paced.Window(Five(400));
  CHECK_FALSE(paced.Text(NoteKind::kSlowRank).empty());
}

TEST_CASE("a job whose steps take a tenth longer than they did is told so") {
  struct {
    const char* what;
    std::vector<int64_t> after_ms;  // ten windows of 300 ms
    bool told;
  } const rows[] = {
      {"for five windows", {331, 331, 331, 331, 331}, true},
      {"for four", {331, 331, 331, 331, 300, 331, 331, 331, 331}, false},
      {"by less", {325, 325, 325, 325, 325, 325, 325}, false},
      {"it is faster", {200, 200, 200, 200, 200, 200}, false},
      {"one long pause", {9000, 300, 300, 300, 300}, false},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    Paced paced;
    for (int i = 0; i < 10; ++i) {
      paced.Window(Usual);
    }
    for (const int64_t step_ms : row.after_ms) {
      paced.Window(Usual, step_ms);
    }
    CHECK(paced.Text(NoteKind::kSlowJob).empty() != row.told);
    CHECK(paced.Text(NoteKind::kSlowRank).empty());
  }
  Paced paced;
  for (int i = 0; i < 20; ++i) {
    paced.Window(Usual, i < 15 ? 300 : 450);
  }
  CHECK(paced.Text(NoteKind::kSlowJob) ==
        "steps take 50 % longer (450 ms against 300 ms) than before");
}

TEST_CASE("another attempt begins anew, and noise says nothing") {
  Paced paced;
  paced.Window(Five(400));
  paced.Window(Five(400));
  paced.Hold(paced.job);
  paced.Release(paced.job);
  REQUIRE(paced.Is(paced.job) == JobState::kRunning);
  paced.Window(Five(400));
  CHECK(paced.At(paced.job).attempts.back().notes.empty());
  Prng prng(11);
  for (int i = 0; i < 500; ++i) {
    const auto noise = [&](uint32_t) { return kUsualMs + static_cast<int64_t>(prng.Below(12)); };
    paced.Window(noise, 300 + static_cast<int64_t>(prng.Below(25)));
  }
  CHECK(paced.At(paced.job).attempts.back().notes.empty());
}

}  // namespace tide::testing
