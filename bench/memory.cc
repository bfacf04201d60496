// memory: what the scheduler's core and its store keep of jobs that came and went. Short jobs are
// driven through both, in virtual time; after 100,000 the finished jobs of the default policy are
// there, after 1,000,000 no more than these may be.

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "bench/benches.h"
#include "bench/daemons/bench_store.h"
#include "bench/worlds.h"
#include "common/base/check.h"
#include "scheduler/core/step.h"
#include "scheduler/core/testing/builders.h"
#include "scheduler/store/open_database.h"
#include "scheduler/store/store.h"

namespace tide::bench {
namespace {

constexpr uint32_t kMemoryNodes = 100;
constexpr uint64_t kJobsAtOnce = 8 * kMemoryNodes;  // of one GPU
constexpr uint64_t kSubmittingUsers = 100;

int64_t OwnResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  TIDE_CHECK(!file.fail(), "this process has a size");
  return resident * ::sysconf(_SC_PAGESIZE);
}

// State and SQLite store, as a scheduler has them.
class Through {
 public:
  explicit Through(uint32_t finished_max) : world_(kMemoryNodes) {
    world_.policy.finished_max = finished_max;
    auto database = OpenDatabase(store_files_.address());
    TIDE_CHECK(database.has_value(), "the database was made");
    auto store = Store::Open(std::move(*database), "tide-bench", world_.now);
    TIDE_CHECK(store.has_value(), "nobody leads on the store");
    store_ = std::move(*store);
    StepResult nodes;
    for (const Node& node : world_.state.nodes) {
      nodes.changed.nodes.insert(node.id);
    }
    world_.state.changed = ChangeSet();
    Finish(nodes);
  }

  // Until so many jobs have ended, of all.
  void Drive(uint64_t jobs) {
    while (ended_ < jobs) {
      const uint64_t count = std::min(kJobsAtOnce, jobs - ended_);
      Submit(count);
      Pass(Duration::Seconds(1));
      Report(TaskState::kRunning);
      Pass(Duration::Seconds(30));
      Report(TaskState::kExited);
      Pass(Duration::Seconds(1));
      ended_ += count;
    }
    TIDE_CHECK(world_.state.live.empty() && world_.state.waiting.empty(), "all jobs have ended");
  }

  [[nodiscard]] size_t known() const { return world_.state.jobs.size(); }

 private:
  void Submit(uint64_t count) {
    std::vector<Event> events;
    for (uint64_t i = 0; i < count; ++i) {
      JobSubmitted submitted;
      submitted.job = JobId(world_.state.next_job_id + i);
      submitted.user = "user-" + std::to_string(submitted.job.value() % kSubmittingUsers);
      submitted.idempotency_key = submitted.user + "/key-" + std::to_string(submitted.job.value());
      submitted.spec = testing::AJob().Gpus(1).Spec();
      events.push_back({world_.now, std::move(submitted)});
    }
    Turn(events);
  }

  void Report(TaskState state) {
    std::vector<Event> events;
    for (const JobId id : world_.state.live) {
      const Attempt& attempt = world_.state.jobs.at(id).attempts.back();
      TaskReported report;
      report.node = attempt.tasks.front().node;
      report.job = id;
      report.epoch = attempt.epoch;
      report.state = state;
      if (state == TaskState::kExited) {
        report.exit.reason = ExitReason::kSucceeded;
      }
      events.push_back({world_.now, std::move(report)});
    }
    TIDE_CHECK(!events.empty(), "jobs run");
    Turn(events);
  }

  // Time passes, with a turn whenever the scheduler asks for one, as in its loop.
  void Pass(Duration span) {
    const Instant until = world_.now + span;
    while (wake_at_ < until) {
      world_.now = std::max(world_.now, wake_at_);
      Turn({});
    }
    world_.now = until;
  }

  void Turn(const std::vector<Event>& events) {
    const StepResult step = Step(world_.state, events, world_.policy, world_.now);
    for (const Result<Applied>& result : step.results) {
      TIDE_CHECK(result.has_value(), "every event is legal");
    }
    wake_at_ = step.wake_at;
    Finish(step);
  }

  void Finish(const StepResult& step) {
    TIDE_CHECK(store_->Commit(world_.state, step, world_.now).has_value(), "it is written");
  }

  BenchStore store_files_{StoreKind::kSqlite};
  World world_;
  std::unique_ptr<Store> store_;
  Instant wake_at_ = Instant::Never();
  uint64_t ended_ = 0;
};

}  // namespace

void RunMemory(Run& run) {
  const std::string what = "1,000,000 jobs after 100,000";
  if (!run.Wants(what)) {
    return;
  }
  const uint32_t few = run.quick() ? 400 : 100'000;
  const uint64_t many = uint64_t{10} * few;
  Through through(few);
  through.Drive(few);
  TIDE_CHECK(through.known() == few, "all of them are kept");
  const int64_t before = OwnResidentBytes();
  through.Drive(many);
  // A batch of excess is let be.
  TIDE_CHECK(through.known() < few + 256, "no more are kept than the policy wants");
  const int64_t after = OwnResidentBytes();
  run.Add("after 100,000 jobs", Metric::kBytes, static_cast<double>(before), 1);
  run.Add("after 1,000,000 jobs", Metric::kBytes, static_cast<double>(after), 1);
  run.Add(what,
          Metric::kRatio,
          static_cast<double>(after) / static_cast<double>(before),
          1,
          AtMost(1.1));
}

}  // namespace tide::bench
