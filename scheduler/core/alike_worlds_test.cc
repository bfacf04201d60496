// Many waiting jobs of few owners and shapes. Looked at one by one, each by itself, the decision is
// the same, and so is what each of them is told. TIDE_SEEDS=N runs more worlds.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iterator>
#include <set>

#include "common/base/prng.h"
#include "scheduler/core/testing/world.h"

namespace tide::testing {
namespace {

constexpr uint64_t kSeeds = 400;
constexpr int kRounds = 24;
constexpr size_t kWaitingMax = 60;

// Decisions by what there was to see in them: none of it may be missing in all the worlds.
struct Seen {
  size_t passed_over = 0;  // jobs that were not looked at
  size_t starts = 0;       // decisions that started or claimed something where such jobs wait
  size_t by_patience = 0;  // rows of jobs that are alike, of which some may ask others to leave
  size_t beside = 0;       // rows with jobs of the same shape that are not like them
  size_t varied = 0;       // jobs with waits of their own, which are passed over if an answer holds
};

class AlikeWorld : public World {
 public:
  AlikeWorld(Prng& prng, Seen& seen)
      : World(Cluster().Zone("A").Leaf(2).Leaf(2).Zone("B").Leaf(3)), prng_(prng), seen_(seen) {
    policy.minimum_run = Duration::Minutes(15);
    if (prng_.Below(2) == 0) {
      AddRow(QuotaRow::Subject::kProject, "llm");
      AddRow(QuotaRow::Subject::kUser, "ada");
    }
    if (prng_.Below(3) == 0) {
      policy.demotions = {{10, {0, Duration::Minutes(20)}}};
    }
  }

  void Round() {
    now = now + Duration::Minutes(static_cast<int64_t>(prng_.Below(20)));
    std::vector<EventBody> bodies;
    const uint64_t count = 1 + prng_.Below(4);
    for (uint64_t i = 0; i < count; ++i) {
      Draw(bodies);
    }
    ClusterState undecided = state;
    std::vector<Event> events;
    for (const EventBody& body : bodies) {
      events.push_back({now, body});
    }
    (void)Step(undecided, events, policy, now, Deciding::kLater);
    Compare(undecided);
    Turn(bodies);
    if (prng_.Below(3) > 0) {
      Run();
    }
    Compare(state);
  }

 private:
  void AddRow(QuotaRow::Subject subject, const char* name) {
    QuotaRow row;
    row.subject = subject;
    row.name = name;
    row.nodes = static_cast<uint32_t>(prng_.Below(4));
    row.limit = 3 + static_cast<uint32_t>(prng_.Below(3));
    policy.quotas.push_back(row);
  }

  void Draw(std::vector<EventBody>& bodies) {
    const JobId waiting = AnyOf(state.waiting);
    const JobId live = AnyOf(state.live);
    switch (prng_.Below(8)) {
      case 0:
        if (waiting != JobId()) {
          bodies.emplace_back(JobMoved{waiting, JobId(), "ada"});
        }
        return;
      case 1:
        if (waiting != JobId()) {
          bodies.emplace_back(HoldRequested{waiting, now, "ada", ""});
        }
        return;
      case 2:
        if (!state.held.empty()) {
          bodies.emplace_back(ReleaseRequested{AnyOf(state.held), "ada"});
        }
        return;
      case 3:
        if (live != JobId()) {
          bodies.emplace_back(CancelRequested{live, "ada", ""});
        }
        return;
      case 4:
        bodies.emplace_back(
            DrainRequested{NodeId(static_cast<uint32_t>(prng_.Below(7))), "ops", ""});
        return;
      case 5:
        bodies.emplace_back(UndrainRequested{NodeId(static_cast<uint32_t>(prng_.Below(7))), "ops"});
        return;
      default:
        Submit(bodies);
    }
  }

  // At most one submission of a round knows its number.
  void Submit(std::vector<EventBody>& bodies) {
    if (state.waiting.size() > kWaitingMax) {
      return;
    }
    for (const EventBody& body : bodies) {
      if (std::holds_alternative<JobSubmitted>(body)) {
        return;
      }
    }
    constexpr int32_t kClasses[] = {10, 10, 10, 0, 30, -1};
    AJob job;
    job.Priority(kClasses[prng_.Below(std::size(kClasses))]);
    job.Project(prng_.Below(2) == 0 ? "llm" : "vision");
    job.Count(static_cast<uint32_t>(1 + prng_.Below(6)));
    if (prng_.Below(3) == 0) {
      job.Gpus(static_cast<uint32_t>(2 + 2 * prng_.Below(2)));
    } else {
      job.Gpus(8).Nodes(static_cast<uint32_t>(1 + prng_.Below(3)));
    }
    const char* user = prng_.Below(2) == 0 ? "ada" : "bob";
    bodies.emplace_back(JobSubmitted{JobId(state.next_job_id), job.Spec(), user, ""});
  }

  [[nodiscard]] JobId AnyOf(const std::set<JobId>& jobs) {
    if (jobs.empty()) {
      return {};
    }
    return *std::next(jobs.begin(), static_cast<std::ptrdiff_t>(prng_.Below(jobs.size())));
  }

  void Compare(const ClusterState& waits) {
    const ClusterState twin = WithoutAlike(waits);
    const Decision decision = Decide(waits, policy, now);
    const Decision each = Decide(twin, policy, now);
    REQUIRE(decision.proposals == each.proposals);
    REQUIRE(decision.wake_at <= each.wake_at);  // earlier for some who are over their quota
    if (decision.proposals.empty()) {           // else numbers are of some moment of it
      REQUIRE(decision.explanations.All(waits) == each.explanations.All(twin));
    }
    Note(waits, decision);
  }

  void Note(const ClusterState& waits, const Decision& decision) {
    size_t alike = 0;
    for (const auto& [key, queue] : waits.queue.queues()) {
      for (const AlikeJobs& jobs : queue.alike) {
        const size_t asking = jobs.LaterThan(now - policy.minimum_run, 0);
        alike += jobs.size() > 1 ? 1 : 0;
        seen_.passed_over += jobs.size() - 1;
        seen_.by_patience += asking > 0 && asking < jobs.size() ? 1 : 0;
        seen_.beside += jobs.size() > 1 && std::ranges::count(
                                               queue.singles, jobs.shape(), &WaitingJob::shape) > 0
                            ? 1
                            : 0;
      }
    }
    for (const auto& [key, queue] : waits.queue.queues()) {
      for (const VariedJobs& jobs : queue.varied) {
        for (size_t place = jobs.Next(0); place != jobs.end(); place = jobs.Next(place)) {
          ++seen_.varied;
        }
      }
    }
    seen_.starts += alike > 0 && !decision.proposals.empty() ? 1 : 0;
  }

  Prng& prng_;
  Seen& seen_;
};

}  // namespace

TEST_CASE("property: what jobs that are alike are told is what each would be told alone") {
  const char* asked = std::getenv("TIDE_SEEDS");
  const uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kSeeds;
  Seen seen;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Prng prng(seed);
    AlikeWorld world(prng, seen);
    for (int round = 0; round < kRounds; ++round) {
      CAPTURE(round);
      world.Round();
    }
  }
  CHECK(seen.passed_over > 0);
  CHECK(seen.starts > 0);
  CHECK(seen.by_patience > 0);
  CHECK(seen.varied > 0);
  CHECK(seen.beside > 0);
}

}  // namespace tide::testing
