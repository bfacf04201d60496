// The agreement over real gRPC: two agents, four ranks that train on threads.

#include "agent/server/suspend_run.h"

#include <deque>
#include <optional>

#include "agent/server/testing/peers.h"
#include "common/base/time.h"

namespace tide::agent {
namespace {

using Phase = Agreement::Phase;

// Trains until it is told to leave or to stop; saves when it is told to.
class SimulatedRank {
 public:
  explicit SimulatedRank(const std::string& page) : page_(page), thread_([this] { Train(); }) {}
  ~SimulatedRank() {
    ending_ = true;
    thread_.join();
  }
  SimulatedRank(const SimulatedRank&) = delete;
  SimulatedRank& operator=(const SimulatedRank&) = delete;
  [[nodiscard]] int64_t step() const { return step_; }
  [[nodiscard]] int64_t left_at() const { return left_at_; }
  [[nodiscard]] int64_t saved_at() const { return saved_at_; }

 private:
  void Train() {
    page_.SetPhase(RankPhase::kTraining);
    for (int64_t step = 0; !ending_; ++step) {
      page_.SetStep(step);
      while (page_.state() == 1 && step >= page_.at_step() && !ending_) {
        page_.SetPhase(RankPhase::kWaiting);
        std::this_thread::yield();
      }
      const bool fires = page_.state() == 2 && step >= page_.at_step() && !page_.acknowledged();
      if (fires && page_.order() == 1) {
        saved_at_ = step;
        page_.Acknowledge();
      } else if (fires) {
        page_.SetPhase(RankPhase::kSaving);
        left_at_ = step;
        return;
      }
      page_.SetPhase(RankPhase::kTraining);
      step_ = step;
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // tidy: poll, one step's work
    }
  }

  RankPage page_;
  std::atomic<bool> ending_ = false;
  std::atomic<int64_t> step_ = -1;
  std::atomic<int64_t> left_at_ = -1;
  std::atomic<int64_t> saved_at_ = -1;
  std::thread thread_;
};

class Gang {
 public:
  Gang() {
    start = TestStart(2, 2);
    for (int task = 0; task < 2; ++task) {
      Peer& peer = peers.emplace_back(dir, "n" + std::to_string(task + 1), token);
      pages.push_back(peer.AddPages(static_cast<uint32_t>(task), 2));
      start.mutable_peers(task)->set_endpoint(peer.address);
    }
  }
  void Train() {
    for (Peer& peer : peers) {
      ranks.emplace_back(peer.RunDir() + "/page-0");
      ranks.emplace_back(peer.RunDir() + "/page-1");
    }
    REQUIRE(Eventually([&] {
      return std::ranges::all_of(ranks, [](const SimulatedRank& rank) { return rank.step() > 3; });
    }));
  }
  std::unique_ptr<SuspendRun> Suspend(Duration notice = Duration::Seconds(60),
                                      AgreeOrder order = AgreeOrder::kSuspend) {
    over = false;
    return std::make_unique<SuspendRun>(
        start,
        token,
        (SystemNow() + notice).unix_nanos(),
        [this](Phase phase, int64_t step) {
          last_phase = phase;
          last_step = step;
          over = true;
        },
        order);
  }
  std::unique_ptr<SuspendRun> Save() { return Suspend(Duration::Seconds(30), AgreeOrder::kSave); }
  void CheckAllLeftAt(int64_t step) {
    CHECK(Eventually([&] {
      return std::ranges::all_of(ranks,
                                 [](const SimulatedRank& rank) { return rank.left_at() >= 0; });
    }));
    for (const SimulatedRank& rank : ranks) {
      CHECK(rank.left_at() == step);
    }
  }

  TestDir dir;
  rpc::ClusterToken token{"0123456789abcdef"};
  std::deque<Peer> peers;
  std::vector<std::shared_ptr<TaskPages>> pages;
  tide::v1::StartTask start;
  std::deque<SimulatedRank> ranks;
  std::atomic<bool> over = false;
  std::atomic<Phase> last_phase = Phase::kProbing;
  std::atomic<int64_t> last_step = -1;
};

TEST_CASE("all ranks of two agents stop at one step") {
  Gang gang;
  gang.Train();
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kCommitted);
  gang.CheckAllLeftAt(gang.last_step);
}

TEST_CASE("all ranks of two agents save at one step and train on, again and again") {
  Gang gang;
  gang.Train();
  for (int save = 0; save < 3; ++save) {
    const auto run = gang.Save();
    REQUIRE(Eventually([&] { return gang.over.load(); }));
    REQUIRE(gang.last_phase == Phase::kCommitted);
    REQUIRE(Eventually([&] {
      for (const auto& pages : gang.pages) {
        pages->Tidy(Duration::Seconds(9).nanos());
      }
      return std::ranges::none_of(gang.pages,
                                  [](const auto& pages) { return pages->armed_or_committed(); });
    }));
    const int64_t step = gang.last_step;
    for (const SimulatedRank& rank : gang.ranks) {
      CHECK(rank.saved_at() == step);
      CHECK(rank.left_at() == -1);
      CHECK(Eventually([&] { return rank.step() > step + 3; }));
    }
  }
}

TEST_CASE("a suspension stops all ranks at one step, whatever a save has come to") {
  Gang gang;
  gang.Train();
  auto save = gang.Save();
  SECTION("it was just begun") {}
  SECTION("it is on every page") {
    REQUIRE(Eventually([&] { return gang.over.load(); }));
  }
  SECTION("it is on one agent's pages only") {
    save.reset();
    const auto number = static_cast<uint64_t>(SystemNow().unix_nanos());
    (void)gang.pages[1]->Hold({AgreeVerb::kArm, 1'000'000, {}, number, AgreeOrder::kSave}, 0);
    (void)gang.pages[1]->Hold({AgreeVerb::kCommit, 1'000'000, {}, number, AgreeOrder::kSave}, 0);
    CHECK(gang.pages[1]->armed_or_committed());
  }
  save.reset();
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kCommitted);
  gang.CheckAllLeftAt(gang.last_step);
}

TEST_CASE("a save does not wait for a peer that is away, nor for ranks without the SDK") {
  Gang gang;
  SECTION("a peer") {
    gang.Train();
    gang.peers[1].Stop();
  }
  SECTION("ranks") {}
  const auto run = gang.Save();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kAborted);
  CHECK_FALSE(gang.pages[0]->armed_or_committed());
  CHECK(gang.peers[0].signals == 0);
}

TEST_CASE("the agent of an earlier leader committed: its step stands") {
  Gang gang;
  (void)gang.pages[1]->Hold({AgreeVerb::kCommit, 40}, 0);
  gang.Train();
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kCommitted);
  CHECK(gang.last_step == 40);
}

TEST_CASE("a peer that comes late is waited for") {
  Gang gang;
  gang.Train();
  gang.peers[1].Stop();
  const auto run = gang.Suspend();
  CHECK_FALSE(gang.over);
  gang.peers[1].Serve();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kCommitted);
  gang.CheckAllLeftAt(gang.last_step);
}

TEST_CASE("withdrawn while a peer is away, training goes on; ordered again, it stops") {
  Gang gang;
  gang.Train();
  gang.peers[1].Stop();
  const auto run = gang.Suspend();
  run->Withdraw();
  CHECK_FALSE(gang.over);  // the other agent's pages may be armed: it is asked until it answers
  REQUIRE(run->Renew((SystemNow() + Duration::Seconds(60)).unix_nanos()));
  gang.peers[1].Serve();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kCommitted);
  gang.CheckAllLeftAt(gang.last_step);
  CHECK_FALSE(run->Renew(0));
}

TEST_CASE("withdrawn before the commit, the pages are idle again") {
  Gang gang;
  gang.Train();
  gang.peers[1].Stop();
  const auto run = gang.Suspend();
  run->Withdraw();
  gang.peers[1].Serve();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kAborted);
  const int64_t step = gang.ranks[0].step();
  CHECK(Eventually([&] { return gang.ranks[0].step() > step + 5; }));
  CHECK_FALSE(gang.pages[0]->armed_or_committed());
}

TEST_CASE("a gang that has lost a rank is not suspended") {
  Gang gang;
  gang.Train();
  gang.pages[1]->SetRanksGone(1);
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kAborted);
  CHECK_FALSE(gang.pages[0]->armed_or_committed());
}

TEST_CASE("ranks without the SDK get their signal") {
  Gang gang;
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kSignalled);
  CHECK(gang.peers[0].signals == 1);
  CHECK(gang.peers[1].signals == 1);
}

TEST_CASE("a peer that has not delivered the signal is asked again") {
  Gang gang;
  gang.peers[1].delivers = false;
  const auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return gang.peers[1].signals > 1; }));
  CHECK_FALSE(gang.over);
  gang.peers[1].delivers = true;
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kSignalled);
}

TEST_CASE("after the deadline the run gives up and says so") {
  Gang gang;
  gang.peers[1].Stop();
  const auto run = gang.Suspend(Duration::Millis(150));
  REQUIRE(Eventually([&] { return gang.over.load(); }));
  CHECK(gang.last_phase == Phase::kAborted);
  CHECK_FALSE(run->Renew((SystemNow() + Duration::Seconds(9)).unix_nanos()));
}

TEST_CASE("dropping a run does not wait for a peer that does not answer") {
  std::atomic<bool> asked = false;
  std::atomic<bool> dropped = false;
  Gang gang;  // its peers look at those
  gang.peers[1].on_signal = [&] {
    asked = true;
    (void)Eventually([&] { return dropped.load(); });
  };
  auto run = gang.Suspend();
  REQUIRE(Eventually([&] { return asked.load(); }));
  const int64_t before = MonotonicNanos();
  run.reset();
  CHECK(MonotonicNanos() - before < 500'000'000);  // a round takes 1 s
  dropped = true;
}

TEST_CASE("a run can be dropped at any moment") {
  Gang gang;
  gang.Train();
  gang.peers[1].Stop();
  for (int i = 0; i < 5; ++i) {
    (void)gang.Suspend();
  }
  CHECK_FALSE(gang.over);
}

}  // namespace
}  // namespace tide::agent
